"""What the refusals in a model's forward pass cost: operations that torch runs, and time, with them and without them.

    python bench/guards.py

They compare shapes and lists of numbers in Python, so no kernel waits for them, and a captured step (training/cuda_graph.py,
generation/cuda/graphs.py) replays kernels alone: there they cost nothing (tests/training/test_cuda_graph.py).
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.model.network import Network
from glassformer.model.transformer import Transformer
from glassformer.recipe import load_recipe

GUARDED = ((Transformer, "features"), (Network, "logits"))
ROUNDS = 300


class Operations(TorchDispatchMode):
    """Counts what is run."""

    number = 0

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        self.number += 1
        return function(*given, **(named or {}))


class WithoutRefusals(ast.NodeTransformer):
    removed = 0

    def visit_If(self, node: ast.If) -> ast.If | None:
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise) and not node.orelse:
            self.removed += 1
            return None
        return node


def unguarded(owner: type, name: str) -> tuple[Callable[..., Any], int]:
    """A method without its ``if ...: raise ...``, and how many there were."""
    function, remover = getattr(owner, name), WithoutRefusals()
    tree = ast.fix_missing_locations(remover.visit(ast.parse(textwrap.dedent(inspect.getsource(function)))))
    found: dict[str, Any] = {}
    exec(compile(tree, name, "exec"), vars(sys.modules[owner.__module__]), found)
    return found[name], remover.removed


def measured(model: Transformer, ids_BT: Tensor) -> tuple[int, float]:
    """Operations of a forward and backward pass, and microseconds of a forward pass of one token: Python's share."""
    with Operations() as operations:
        model(ids_BT).sum().backward()
    with torch.no_grad():
        began = time.process_time()
        for _ in range(ROUNDS):
            model(ids_BT[:1, :1])
    return operations.number, (time.process_time() - began) / ROUNDS * 1e6


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    config = load_recipe("shakespeare-char").model
    model = config.build(65, seed=0).eval()
    ids_BT = torch.zeros(2, 256, dtype=torch.long)
    plain = [getattr(owner, name) for owner, name in GUARDED]
    without = [unguarded(owner, name) for owner, name in GUARDED]
    print(f"refusals removed: {sum(removed for _, removed in without)}")
    for number in range(6):
        guards = number % 2 == 0
        for (owner, name), own, (bare, _) in zip(GUARDED, plain, without):
            setattr(owner, name, own if guards else bare)
        operations, microseconds = measured(model, ids_BT)
        print(f"{'with' if guards else 'without'}: {operations} operations, {microseconds:.1f} us for one token")


if __name__ == "__main__":
    main()
