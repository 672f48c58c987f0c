"""How weights start: each module draws from the seed and a key that says what it is for, whatever its attribute is called.

A key is slot, layer, role and number: ``blocks.3.feedforward/linear.0`` is the first linear layer of layer 3's feed-forward.
A part that names its layers (``start(nn.Linear(...), "qkv")``) is keyed by that name: ``blocks.3.attention.mixer.qkv``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.seeds import derive_seed

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class _Mark:
    name: str
    writes_residual: bool


def start(module: M, name: str = "", *, writes_residual: bool = False) -> M:
    """Marks a layer inside a part: a linear layer, an embedding, or any module with a ``weight`` (and a ``bias``).
    ``writes_residual``: its output is added to the residual stream, so it starts smaller.
    ``name``: its key inside the part; without one it is counted."""
    module.__dict__["_start"] = _Mark(name, writes_residual)
    return module


def keyed(part: M, key: str) -> M:
    """Marks a whole part (what a slot's config built) with its slot and layer. Who puts the parts together does this."""
    if not isinstance(part, nn.Module):
        raise ConfigError(
            f"{key}: build gives {type(part).__name__}, not a torch.nn.Module; return a module with forward.",
            reason="build-gives-no-module",
        )
    part.__dict__["_start_key"] = key
    return part


def part_key(module: nn.Module) -> str | None:
    """The key of a whole part; None for what is inside one."""
    key: str | None = module.__dict__.get("_start_key")
    return key


@dataclass(frozen=True)
class InitialWeights:
    """One module that draws its start, with its key and its role: "residual", "linear", "embedding" or "own" (it defines
    ``init_weights``)."""

    module: nn.Module
    key: str
    role: str

    @property
    def layer(self) -> int | None:
        """The block it is in."""
        start, _, rest = self.key.partition(".")
        return int(rest.partition(".")[0]) if start == "blocks" else None


def initial_weights(model: nn.Module) -> list[InitialWeights]:
    """Every module that draws, children before parents, so that a part's ``init_weights`` has the last word on what is in it.
    Within a part they are counted by role, in the order in which the part made them."""
    found: list[InitialWeights] = []
    seen: set[nn.Module] = set()

    def visit(module: nn.Module, key: str, counts: Counter[str]) -> None:
        if module in seen:
            return
        seen.add(module)
        own_key, mark = part_key(module), module.__dict__.get("_start", _Mark("", False))
        if own_key is not None:
            key, counts = own_key, Counter()
        drawn_from, role = key, _role(module, mark)
        if role is not None and own_key is None:
            drawn_from = f"{key}.{mark.name}" if mark.name else f"{key}/{role}.{counts[role]}"
            counts[role] += not mark.name
        for child in module.children():
            visit(child, key, counts)
        if role is not None:
            found.append(InitialWeights(module, drawn_from, role))

    visit(model, "", Counter())
    return found


def _role(module: nn.Module, mark: _Mark) -> str | None:
    if hasattr(module, "init_weights"):
        return "own"
    if isinstance(module, nn.Embedding):
        return "embedding"
    if isinstance(module, nn.Linear) or "_start" in module.__dict__:
        return "residual" if mark.writes_residual else "linear"
    return None


@torch.no_grad()
def initialise(model: nn.Module, seed: int, std_of: Callable[[InitialWeights], float]) -> None:
    """Each module draws from a generator of its own, so that changing one part leaves the others' start alone.

    Weights are normal with the standard deviation ``std_of``, biases are zero. A part with parameters of its own kind defines
    ``init_weights(generator)``.
    """
    for one in initial_weights(model):
        generator = torch.Generator().manual_seed(derive_seed(seed, "init", one.key))
        module = one.module
        if one.role == "own":
            module.init_weights(generator)  # type: ignore[operator]
            continue
        weight, bias = module.weight, getattr(module, "bias", None)
        assert isinstance(weight, Tensor)
        nn.init.normal_(weight, std=std_of(one), generator=generator)
        if bias is not None:
            nn.init.zeros_(bias)
