"""Experts on a GPU: sorted tokens and grouped products beside every expert reading every token, and the definition.

    python bench/experts.py            # on a GPU: differences, milliseconds of a forward and backward pass in bf16
    python bench/experts.py --check-only  # anywhere: that the three forms agree in float32

With ``$OUT`` set, the table is also written there as experts.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from glassformer.model.dims import Dims
from glassformer.model.feedforwards.experts import Experts, ExpertsConfig
from glassformer.model.initialisation import initialise, keyed
from glassformer.model.inits.normal import NormalConfig

FORMS = ("mix", "mix_all", "mix_sorted")


def made(width: int, experts: int, device: str, dtype: torch.dtype) -> Experts:
    dims = Dims(width=width, heads=1, layers=1, context=8, vocabulary=2)
    part = keyed(ExpertsConfig(experts=experts, inner=width).build(dims), "part")
    initialise(part, 1, lambda weights: NormalConfig().std_of(weights, dims))
    return part.to(device, dtype)


def inputs(part: Experts, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    weight = part.router.weight
    x_ND = torch.randn(tokens, weight.shape[1], generator=torch.Generator().manual_seed(2)).to(weight).requires_grad_()
    best_NK, chosen_NK = part.router(x_ND.detach()).topk(part.config.active, dim=-1)
    return x_ND, chosen_NK, best_NK.detach().softmax(-1)


def worst_difference(part: Experts, tokens: int) -> float:
    """Of outputs and gradients, relative to the largest number of the definition's."""
    found = []
    for name in FORMS:
        x_ND, chosen_NK, share_NK = inputs(part, tokens)
        mixed = getattr(part, name)(x_ND, chosen_NK, share_NK)
        wanted = [x_ND, part.gate_and_up.weight, part.down.weight]
        found.append([mixed.detach(), *torch.autograd.grad(mixed.float().square().sum(), wanted)])
    shares = [
        float((one - first).abs().max() / first.abs().max()) for other in found[1:] for one, first in zip(other, found[0])
    ]
    return max(shares)


def milliseconds(run: Callable[[], Tensor], repeats: int = 20) -> float:
    for _ in range(3):
        run().sum().backward()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        run().sum().backward()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check-only", action="store_true")
    only = parser.parse_args().check_only
    print(f"float32, CPU: largest difference {worst_difference(made(16, 5, 'cpu', torch.float32), 40):.1g}")
    if only:
        return
    torch.use_deterministic_algorithms(True)
    rows = []
    print("| experts | width | tokens | difference | definition, ms | all, ms | sorted, ms |\n|---|---|---|---|---|---|---|")
    for experts, width, tokens in ((8, 384, 16384), (8, 768, 16384), (32, 384, 16384), (64, 768, 16384)):
        part = made(width, experts, "cuda", torch.bfloat16)
        difference = worst_difference(part, 512)
        x_ND, chosen_NK, share_NK = inputs(part, tokens)
        times = [milliseconds(partial(getattr(part, name), x_ND, chosen_NK, share_NK)) for name in FORMS]
        rows.append(
            {"experts": experts, "width": width, "tokens": tokens, "difference": difference, "ms": dict(zip(FORMS, times))}
        )
        shown = " | ".join(f"{one:.2f}" for one in times)
        print(f"| {experts} | {width} | {tokens} | {difference:.2g} | {shown} |", flush=True)
    if "OUT" in os.environ:
        Path(os.environ["OUT"], "experts.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
