"""Two tokenizers in one file: one for the texts that are read, one for those that are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, final

import numpy as np
from pydantic import BeforeValidator, SerializeAsAny

from glassformer.data.tokenizers.base import TOKENIZERS, Progress, Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.files import tokenizer_of
from glassformer.foundation.errors import ConfigError


def target_side(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of the texts that are written: a part of ``two``, otherwise the one there is."""
    return tokenizer.target if isinstance(tokenizer, TwoTokenizers) else tokenizer


@final
class TwoTokenizers(Tokenizer):
    """Encodes and decodes as ``source`` does; ``target`` is the other one."""

    kind = "two"

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self.source, self.target = source, target
        self.start_id, self.stop_id, self.unknown_id = source.start_id, source.stop_id, source.unknown_id
        self.pad_id, self.mask_id, self.marks = source.pad_id, source.mask_id, source.marks

    @property
    def size(self) -> int:
        return self.source.size

    def encode(self, text: str) -> list[int]:
        return self.source.encode(text)

    def encode_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return self.source.encode_batch(texts)

    def decode(self, ids: Sequence[int]) -> str:
        return self.source.decode(ids)

    def stable_length(self, ids: Sequence[int]) -> int:
        return self.source.stable_length(ids)

    def token_text(self, token_id: int) -> str:
        return self.source.token_text(token_id)

    def byte_lengths(self) -> np.ndarray:
        return self.source.byte_lengths()

    def with_marks(self, marks: Sequence[str]) -> TwoTokenizers:
        return TwoTokenizers(self.source.with_marks(marks), self.target.with_marks(marks))

    def settings(self) -> dict[str, Any]:
        sides = {"source": self.source, "target": self.target}
        return {name: {"kind": side.kind, "settings": side.settings()} for name, side in sides.items()}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> TwoTokenizers:
        source, target = (tokenizer_of(settings[side]["kind"], settings[side]["settings"]) for side in ("source", "target"))
        return cls(source, target)


Side = Annotated[SerializeAsAny[TokenizerConfig], BeforeValidator(TOKENIZERS.parse)]


@TOKENIZERS.variant("two")
class TwoTokenizersConfig(TokenizerConfig):
    """Two tokenizers, one for the source and one for the target of a pair of texts, each with ids of its own."""

    source: Side
    target: Side

    def train(self, texts: Callable[[], Iterable[str]], progress: Progress | None = None) -> Tokenizer:
        """Refused: which of the texts are sources is known to the data of pairs, which train each side."""
        raise ConfigError(
            "tokenizer.kind=two is for pairs of texts (objective: translate), and this text has one side; choose bpe, word, "
            "char or byte.",
            reason="two-tokenizers-one-text",
        )
