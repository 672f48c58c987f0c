"""What a kind of published model is to us: its settings as our config, its tensors by our names, and where it differs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from typing import Any, ClassVar

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import DataError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.slots import PartConfig
from glassformer.pretrained.tensors import Rule

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "relu": "relu",
}
"""Activations by their names there -> our feed-forwards."""
NAMES_OF_BENDS = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu"}


class Architecture(ABC):
    """One kind of model. ``name`` is the class that an export names unless ``class_of`` says another."""

    name: ClassVar[str]
    model_types: ClassVar[tuple[str, ...]]
    classes: ClassVar[tuple[str, ...]]
    """The classes of ``architectures`` that can be read."""
    prefix: ClassVar[str]
    """What the names of tensors begin with in a class with a head, and do not in the bare model."""
    spare: ClassVar[tuple[str, ...]] = ()
    """Ends of the names of tensors that are no weights: masks, positions, rotations that follow from the settings."""
    unused: ClassVar[tuple[str, ...]] = ()
    """Beginnings of the names of weights that no score of ours depends on; leaving them out is said."""

    @abstractmethod
    def read(self, settings: Settings, tensors: Set[str]) -> dict[str, Any]:
        """The ``model`` section of a recipe. A setting that no part of ours can follow is a ``DataError`` that names it."""

    @abstractmethod
    def rules(self, config: ModelConfig, dims: Dims) -> list[Rule]:
        """Our tensors by their names, which begin without ``prefix``."""

    @abstractmethod
    def objections(self, config: ModelConfig) -> list[str]:
        """Why this class has no place for a model of ours: a part each, as ``key=value needs ...``."""

    @abstractmethod
    def write(self, config: ModelConfig, dims: Dims, tokenizer: Tokenizer) -> dict[str, Any]:
        """The settings of config.json that a class cannot guess."""

    def class_of(self, config: ModelConfig) -> str:
        """The class for a model of ours."""
        return self.name

    @abstractmethod
    def copies(self, config: ModelConfig) -> dict[str, str]:
        """Names under which some files keep a tensor a second time, and the name it is read by."""


class Settings:
    """The settings of a config.json, asked for one by one; a wrong one is a sentence that names it."""

    def __init__(self, values: Mapping[str, Any], file: str) -> None:
        self.values, self.file = values, file

    def whole(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        value = self._or_default(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.refusal(name, f"must be a whole number from {least} on")
        return value

    def token_ids(self, name: str, rows: int) -> list[int]:
        """The ids that a setting names: none, one, or a list."""
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
        """One of our feed-forwards for the name of an activation."""
        value = self._or_default(name, default)
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise self.refusal(name, f"is an activation that no part of ours has; it can be one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def must(self, name: str, *allowed: Any) -> None:
        """A setting that has to be absent or one of these."""
        value = self.values.get(name)
        if value is not None and value not in allowed:
            shown = " or ".join(repr(each) for each in allowed) or "left out"
            raise self.refusal(name, f"asks for something no part of ours does; it can be {shown}")

    def dropout(self, *names: str) -> float:
        """Ours is one number for all places: the largest of theirs."""
        return max(self.number(name, 0.1) for name in names)

    def refusal(self, name: str, rule: str) -> DataError:
        return DataError(f"{name}={self.values.get(name)!r} {rule}.", file=self.file)

    def _or_default(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        return default if value is None else value


def must_be(config: ModelConfig, allowed: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The parts that are none of those allowed, as sentences without an end."""
    wrong = []
    for slot, kinds in allowed.items():
        kind = getattr(config, slot).kind
        if kind not in kinds:
            wrong.append(f"model.{slot}={kind} is not {' or '.join(kinds)}")
    return wrong


def setting(part: PartConfig, name: str, default: Any = None) -> Any:
    """A setting of a part that has one of this name; ``default`` for the others."""
    return getattr(part, name, default)


def must_be_plain(config: ModelConfig) -> list[str]:
    """The settings of attention that no other program's model has, as sentences without an end."""
    wrong = [f"model.mixer.{name}={value}" for name in ("scale", "masked") if (value := setting(config.mixer, name))]
    if config.dims(vocabulary=1).attention_width != config.width:
        wrong.append(f"model.head_width={config.head_width} with model.heads={config.heads}")
    return wrong


def inner_of(config: ModelConfig, dims: Dims) -> int:
    """The inner width of a feed-forward that has one."""
    inner: int = setting(config.feedforward, "inner_width")(dims)
    return inner


def marks_of(tokenizer: Tokenizer) -> dict[str, int | None]:
    """The ids of the marks, as every config.json has them."""
    return {"bos_token_id": tokenizer.start_id, "eos_token_id": tokenizer.stop_id, "pad_token_id": tokenizer.pad_id}
