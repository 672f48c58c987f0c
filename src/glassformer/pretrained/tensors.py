"""Renames and reshapes tensors between Hugging Face's layout and ours, in both directions, by one list of rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.foundation.errors import DataError


@dataclass(frozen=True)
class Rule:
    """One tensor of ours is the concatenation of theirs. ``rows``: the rows (or elements) of each."""

    ours: str
    theirs: tuple[str, ...]
    rows: tuple[int, ...]
    transposed: bool = False
    """Theirs is [inputs, outputs] (GPT-2's Conv1D), ours [outputs, inputs]."""


def linear(ours: str, theirs: str | tuple[str, ...], rows: int | tuple[int, ...], *, transposed: bool = False) -> list[Rule]:
    """The rules of a linear map or a norm: weight and bias."""
    names = (theirs,) if isinstance(theirs, str) else theirs
    sizes = (rows,) if isinstance(rows, int) else rows
    return [
        Rule(f"{ours}.weight", tuple(f"{name}.weight" for name in names), sizes, transposed),
        Rule(f"{ours}.bias", tuple(f"{name}.bias" for name in names), sizes),
    ]


def to_ours(theirs: Mapping[str, Tensor], rules: Iterable[Rule], expected: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Our tensors in float32; raises naming one that is missing or has a wrong shape by its name in the folder."""
    found: dict[str, Tensor] = {}
    for rule in rules:
        if rule.ours not in expected:
            extra = [name for name in rule.theirs if name in theirs and theirs[name].any()]
            if extra:
                raise DataError(f"the tensor {extra[0]} is not zero, and no part of ours has a place for it.")
            continue
        missing = [name for name in rule.theirs if name not in theirs]
        if missing:
            raise DataError(f"the tensor {missing[0]} is missing; the weights are incomplete or of another kind of model.")
        parts = [theirs[name].T if rule.transposed else theirs[name] for name in rule.theirs]
        shape = expected[rule.ours]
        for name, part, rows in zip(rule.theirs, parts, rule.rows):
            wanted = (rows, *shape[1:])
            if tuple(part.shape) != wanted:
                stored = wanted[::-1] if rule.transposed else wanted
                raise DataError(f"the tensor {name} has shape {list(theirs[name].shape)}; config.json asks for {list(stored)}.")
        found[rule.ours] = torch.cat(parts).to(torch.float32).contiguous()
    absent = expected.keys() - found.keys()
    assert not absent, absent  # a tensor of ours without a rule
    return found


def to_theirs(ours: Mapping[str, Tensor], rules: Iterable[Rule]) -> dict[str, Tensor]:
    """Their tensors. A bias or a table that our model does not have is written as zeros."""
    written: dict[str, Tensor] = {}
    width = ours["embedding.weight"].shape[1]
    for rule in rules:
        if rule.ours in ours:
            parts = ours[rule.ours].detach().to("cpu", torch.float32).split(rule.rows)
        else:
            shape = () if rule.ours.endswith(".bias") else (width,)
            parts = tuple(torch.zeros(rows, *shape) for rows in rule.rows)
        for name, part in zip(rule.theirs, parts):
            written[name] = (part.T if rule.transposed else part).contiguous().clone()
    return written
