"""Settings of a config.json, and tensors in Hugging Face's layout as ours and back.

``Settings`` refuses a wrong setting by its name. A ``Rule`` renames and reshapes tensors in both directions; ``family`` makes
them from its tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import DataError

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "relu": "relu",
}
"""Hugging Face activation names -> our feed-forwards."""
ACTIVATION_NAMES = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu"}
"""Our feed-forwards -> Hugging Face activation names."""


class Settings:
    """Typed access to the settings of a config.json; raises naming a wrong one."""

    def __init__(self, values: Mapping[str, Any], file: str) -> None:
        self.values, self.file = values, file

    def whole(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        value = self._or_default(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.refusal(name, f"must be a whole number from {least} on")
        return value

    def token_ids(self, name: str, rows: int) -> list[int]:
        """The token ids of a setting: none, one, or a list."""
        value = self.values.get(name)
        ids = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(each, int) and not isinstance(each, bool) and 0 <= each < rows for each in ids):
            raise self.refusal(name, "must be a token id of the vocabulary, or a list of them")
        return ids

    def number(self, name: str, default: float) -> float:
        value = self._or_default(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refusal(name, "must be a number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self._or_default(name, default)
        if not isinstance(value, bool):
            raise self.refusal(name, "must be true or false")
        return value

    def must(self, name: str, *allowed: Any) -> None:
        """Raises unless a setting is absent or one of these."""
        value = self.values.get(name)
        if value is not None and value not in allowed:
            shown = " or ".join(repr(each) for each in allowed) or "left out"
            raise self.refusal(name, f"is not supported; it can be {shown}")

    def refusal(self, name: str, rule: str) -> DataError:
        return DataError(f"{name}={self.values.get(name)!r} {rule}.", file=self.file, reason="bad-setting")

    def _or_default(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        return default if value is None else value


def marks_of(tokenizer: Tokenizer) -> dict[str, int | None]:
    """The ids of the special tokens, for config.json."""
    return {"bos_token_id": tokenizer.start_id, "eos_token_id": tokenizer.stop_id, "pad_token_id": tokenizer.pad_id}


@dataclass(frozen=True)
class Rule:
    """One tensor of ours is the concatenation of theirs. ``rows``: the rows (or elements) of each."""

    ours: str
    theirs: tuple[str, ...]
    rows: tuple[int, ...]
    """None at all: a tensor that must be zero, because ours has no place for it; it is not written."""
    transposed: bool = False
    """Theirs is [inputs, outputs] (GPT-2's Conv1D), ours [outputs, inputs]."""
    heads: int = 0
    """Theirs holds queries, keys and values of so many heads, head after head (GPT-NeoX); ours all queries, then all keys."""
    turned_back: tuple[int, ...] = ()
    """Parts whose heads have their halves swapped: a rotation in the other direction (nanochat)."""
    head_width: int = 0

    def part_of_ours(self, number: int, theirs: Tensor) -> Tensor:
        """One of their tensors in our layout."""
        part = theirs.T if self.transposed else theirs
        if self.heads:
            part = part.unflatten(0, (self.heads, 3, -1)).transpose(0, 1).flatten(0, 2)
        return self._halves_swapped(part) if number in self.turned_back else part

    def part_of_theirs(self, number: int, ours: Tensor) -> Tensor:
        """The inverse."""
        part = self._halves_swapped(ours) if number in self.turned_back else ours
        if self.heads:
            part = part.unflatten(0, (3, self.heads, -1)).transpose(0, 1).flatten(0, 2)
        return part.T if self.transposed else part

    def _halves_swapped(self, part: Tensor) -> Tensor:
        return part.unflatten(0, (-1, 2, self.head_width // 2)).flip(1).flatten(0, 2)


def to_ours(theirs: Mapping[str, Tensor], rules: Iterable[Rule], expected: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Our tensors in float32; raises naming one that is missing or has a wrong shape by its name in the folder."""
    found: dict[str, Tensor] = {}
    for rule in rules:
        if rule.ours not in expected:
            extra = [name for name in rule.theirs if name in theirs and theirs[name].any()]
            if extra:
                raise DataError(
                    f"the tensor {extra[0]} is not zero, and our model has no parameter for it.", reason="tensor-not-zero"
                )
            continue
        missing = [name for name in rule.theirs if name not in theirs]
        if missing:
            raise DataError(
                f"the tensor {missing[0]} is missing; the weights are incomplete or of another kind of model.",
                reason="tensor-missing",
            )
        stored_parts = [theirs[name].T if rule.transposed else theirs[name] for name in rule.theirs]
        shape = expected[rule.ours]  # matrices of experts, one after the other, are rows of one matrix there
        for name, part, rows in zip(rule.theirs, stored_parts, rule.rows):
            wanted = (rows, *shape[max(1, len(shape) - 1) :])
            if tuple(part.shape) != wanted:
                stored = wanted[::-1] if rule.transposed else wanted
                raise DataError(
                    f"the tensor {name} has shape {list(theirs[name].shape)}; config.json asks for {list(stored)}.",
                    reason="tensor-shape",
                )
        parts = [rule.part_of_ours(number, theirs[name]) for number, name in enumerate(rule.theirs)]
        found[rule.ours] = torch.cat(parts).to(torch.float32).reshape(shape).contiguous()
    absent = expected.keys() - found.keys()
    assert not absent, absent  # a tensor of ours without a rule
    return found


def to_theirs(ours: Mapping[str, Tensor], rules: Iterable[Rule]) -> dict[str, Tensor]:
    """Their tensors. A bias or a table that our model does not have is written as zeros."""
    written: dict[str, Tensor] = {}
    width = next(tensor.shape[1] for name, tensor in ours.items() if name.endswith("embedding.weight"))
    for rule in rules:
        if not rule.rows:
            continue
        if rule.ours in ours:
            tensor = ours[rule.ours].detach().to("cpu", torch.float32)
            parts = (tensor.flatten(0, 1) if tensor.dim() == 3 else tensor).split(rule.rows)
        else:
            shape = () if rule.ours.endswith(".bias") else (width,)
            parts = tuple(torch.zeros(rows, *shape) for rows in rule.rows)
        for number, (name, part) in enumerate(zip(rule.theirs, parts)):
            written[name] = rule.part_of_theirs(number, part).contiguous().clone()
    return written
