"""``Architecture``: how a published model type maps to ours: config, tensor names, and unsupported settings.

A ``Rule`` renames and reshapes tensors between Hugging Face's layout and ours, in both directions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import DataError
from glassformer.model.config import LISTS, ModelConfig
from glassformer.model.dims import Dims

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


class Architecture(ABC):
    """One model type. ``name`` is the class of an export, unless ``class_of`` overrides it."""

    name: str
    model_types: tuple[str, ...]
    classes: tuple[str, ...]
    """The supported classes of ``architectures``."""
    prefix: str
    """The prefix of tensor names in a class with a head, absent in the bare model."""
    spare: tuple[str, ...] = ()
    """Suffixes of tensors that are no weights: masks, positions, rotations computed from the settings."""
    unused: tuple[str, ...] = ()
    """Prefixes of weights that our model does not use; leaving them out is reported."""
    parts: Mapping[str, tuple[str, ...]]
    """The kinds of our parts that this class can represent, by slot."""
    mixer_settings: tuple[str, ...] = ("bias",)
    """The settings of a mixer that this class can represent."""
    causal: bool = True
    reads_source: bool = False
    """Whether this is an encoder-decoder."""

    @abstractmethod
    def read(self, settings: Settings, tensors: Set[str]) -> dict[str, Any]:
        """The ``model`` section of a recipe. Raises a ``DataError`` naming an unsupported setting."""

    @abstractmethod
    def rules(self, config: ModelConfig, dims: Dims) -> list[Rule]:
        """The mapping of our tensors to their names, without ``prefix``."""

    def objections(self, config: ModelConfig) -> list[str]:
        """Why this class cannot represent a model of ours, one reason per part, as ``key=value needs ...``."""
        known = {"kind", "fused", *self.mixer_settings}
        wrong = [f"model.{slot} is a list over the layers" for slot in LISTS if isinstance(getattr(config, slot), tuple)]
        first = config.of_layer(0)
        chosen = {**first._asdict(), "head": config.head}
        wrong += [
            f"model.{slot}={chosen[slot].kind} is not {' or '.join(kinds)}"
            for slot, kinds in self.parts.items()
            if chosen[slot].kind not in kinds
        ]
        wrong += [
            f"model.mixer.{name}={_plain(value)}" for name, value in first.mixer.non_defaults().items() if name not in known
        ]
        if config.dims(vocabulary=1).attention_width != config.width:
            wrong.append(f"model.head_width={config.head_width} with model.heads={config.heads}")
        if config.embedding.non_defaults().keys() - {"kind"} or config.embedding.kind != "plain":
            wrong.append(f"model.embedding={config.embedding.to_dict()} is not plain")
        if config.stack.kind != "plain":
            wrong.append(f"model.stack={config.stack.kind} is not plain")
        if config.causal != self.causal:
            wrong.append(f"model.causal={str(config.causal).lower()}")
        if self.causal and getattr(config.head, "bias", None):
            wrong.append("model.head.bias=true")
        if self.causal and (config.segments or config.embedding_norm):
            wrong.append(f"model.segments={config.segments}, model.embedding_norm={str(config.embedding_norm).lower()}")
        return wrong

    @abstractmethod
    def write(self, config: ModelConfig, dims: Dims, tokenizer: Tokenizer) -> dict[str, Any]:
        """The settings of config.json without a suitable default."""

    def class_of(self, config: ModelConfig) -> str:
        """The class for a model of ours."""
        return self.name

    @abstractmethod
    def copies(self, config: ModelConfig) -> dict[str, str]:
        """Names of duplicates of a tensor in some files, and the name it is read by."""


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

    def activation(self, name: str, default: str) -> str:
        """Our feed-forward for an activation name."""
        value = self._or_default(name, default)
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise self.refusal(name, f"is an activation we do not have; use one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def must(self, name: str, *allowed: Any) -> None:
        """Raises unless a setting is absent or one of these."""
        value = self.values.get(name)
        if value is not None and value not in allowed:
            shown = " or ".join(repr(each) for each in allowed) or "left out"
            raise self.refusal(name, f"is not supported; it can be {shown}")

    def dropout(self, *names: str) -> float:
        """The largest of their dropout rates; ours is a single number."""
        return max(self.number(name, 0.1) for name in names)

    def refusal(self, name: str, rule: str) -> DataError:
        return DataError(f"{name}={self.values.get(name)!r} {rule}.", file=self.file)

    def _or_default(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        return default if value is None else value


def _plain(value: Any) -> Any:
    """A setting as a recipe has it: a part by its name."""
    return value.get("kind", value) if isinstance(value, Mapping) else value


def inner_of(config: ModelConfig, dims: Dims) -> int:
    """The inner width of a feed-forward that has one."""
    inner: int = config.of_layer(0).feedforward.inner_width(dims)  # type: ignore[attr-defined]
    return inner


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


def linear(ours: str, theirs: str | tuple[str, ...], rows: int | tuple[int, ...]) -> list[Rule]:
    """The rules of a linear map or a norm: weight and bias."""
    names = (theirs,) if isinstance(theirs, str) else theirs
    sizes = (rows,) if isinstance(rows, int) else rows
    return [
        Rule(f"{ours}.weight", tuple(f"{name}.weight" for name in names), sizes),
        Rule(f"{ours}.bias", tuple(f"{name}.bias" for name in names), sizes),
    ]


def to_ours(theirs: Mapping[str, Tensor], rules: Iterable[Rule], expected: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Our tensors in float32; raises naming one that is missing or has a wrong shape by its name in the folder."""
    found: dict[str, Tensor] = {}
    for rule in rules:
        if rule.ours not in expected:
            extra = [name for name in rule.theirs if name in theirs and theirs[name].any()]
            if extra:
                raise DataError(f"the tensor {extra[0]} is not zero, and our model has no parameter for it.")
            continue
        missing = [name for name in rule.theirs if name not in theirs]
        if missing:
            raise DataError(f"the tensor {missing[0]} is missing; the weights are incomplete or of another kind of model.")
        stored_parts = [theirs[name].T if rule.transposed else theirs[name] for name in rule.theirs]
        shape = expected[rule.ours]  # matrices of experts, one after the other, are rows of one matrix there
        for name, part, rows in zip(rule.theirs, stored_parts, rule.rows):
            wanted = (rows, *shape[max(1, len(shape) - 1) :])
            if tuple(part.shape) != wanted:
                stored = wanted[::-1] if rule.transposed else wanted
                raise DataError(f"the tensor {name} has shape {list(theirs[name].shape)}; config.json asks for {list(stored)}.")
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
