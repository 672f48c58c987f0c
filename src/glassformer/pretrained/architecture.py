"""``Architecture``: how a published model type maps to ours: config, tensor names, and unsupported settings."""

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
"""Hugging Face activation names -> our feed-forwards."""
NAMES_OF_BENDS = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu"}


class Architecture(ABC):
    """One model type. ``name`` is the class of an export, unless ``class_of`` overrides it."""

    name: ClassVar[str]
    model_types: ClassVar[tuple[str, ...]]
    classes: ClassVar[tuple[str, ...]]
    """The supported classes of ``architectures``."""
    prefix: ClassVar[str]
    """The prefix of tensor names in a class with a head, absent in the bare model."""
    spare: ClassVar[tuple[str, ...]] = ()
    """Suffixes of tensors that are no weights: masks, positions, rotations computed from the settings."""
    unused: ClassVar[tuple[str, ...]] = ()
    """Prefixes of weights that our model does not use; leaving them out is reported."""

    @abstractmethod
    def read(self, settings: Settings, tensors: Set[str]) -> dict[str, Any]:
        """The ``model`` section of a recipe. Raises a ``DataError`` naming an unsupported setting."""

    @abstractmethod
    def rules(self, config: ModelConfig, dims: Dims) -> list[Rule]:
        """The mapping of our tensors to their names, without ``prefix``."""

    @abstractmethod
    def objections(self, config: ModelConfig) -> list[str]:
        """Why this class cannot represent a model of ours, one reason per part, as ``key=value needs ...``."""

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
            raise self.refusal(name, f"is an activation that no part of ours has; it can be one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def must(self, name: str, *allowed: Any) -> None:
        """Raises unless a setting is absent or one of these."""
        value = self.values.get(name)
        if value is not None and value not in allowed:
            shown = " or ".join(repr(each) for each in allowed) or "left out"
            raise self.refusal(name, f"asks for something no part of ours does; it can be {shown}")

    def dropout(self, *names: str) -> float:
        """The largest of their dropout rates; ours is a single number."""
        return max(self.number(name, 0.1) for name in names)

    def refusal(self, name: str, rule: str) -> DataError:
        return DataError(f"{name}={self.values.get(name)!r} {rule}.", file=self.file)

    def _or_default(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        return default if value is None else value


def must_be(config: ModelConfig, allowed: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Parts that are not among the allowed ones, as phrases."""
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
    """Settings of attention that Hugging Face models do not have, as phrases."""
    wrong = [f"model.mixer.{name}={value}" for name in ("scale", "masked") if (value := setting(config.mixer, name))]
    if config.dims(vocabulary=1).attention_width != config.width:
        wrong.append(f"model.head_width={config.head_width} with model.heads={config.heads}")
    return wrong


def inner_of(config: ModelConfig, dims: Dims) -> int:
    """The inner width of a feed-forward that has one."""
    inner: int = setting(config.feedforward, "inner_width")(dims)
    return inner


def marks_of(tokenizer: Tokenizer) -> dict[str, int | None]:
    """The ids of the special tokens, for config.json."""
    return {"bos_token_id": tokenizer.start_id, "eos_token_id": tokenizer.stop_id, "pad_token_id": tokenizer.pad_id}
