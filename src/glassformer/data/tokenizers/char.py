"""Characters as tokens: the code points of the training text, and one id for all others.

Encoding is a table look-up over whole arrays. Decoding gives back every text of known characters exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np
from pydantic import Field

from glassformer.data.tokenizers.base import TOKENIZERS, Progress, Tokenizer, TokenizerConfig, in_batches
from glassformer.foundation.errors import DataError

UNKNOWN_TEXT = "\ufffd"
_CODE_POINTS = sys.maxunicode + 1


@final
class CharTokenizer(Tokenizer):
    """Id 0 is the unknown character; the others are in the order of their code points."""

    kind = "char"
    unknown_id = 0

    def __init__(self, characters: Sequence[str]) -> None:
        if any(len(character) != 1 for character in characters) or list(characters) != sorted(set(characters)):
            raise DataError(
                "The characters of a char tokenizer must be single, different, and in the order of their code points.",
                reason="bad-settings",
            )
        self._characters = tuple(characters)
        self._texts = (UNKNOWN_TEXT, *self._characters)
        self._table = np.zeros(_CODE_POINTS, np.uint16 if self.size <= 1 << 16 else np.uint32)
        self._table[[ord(character) for character in characters]] = np.arange(1, self.size)

    @property
    def size(self) -> int:
        return len(self._characters) + 1

    def encode(self, text: str) -> list[int]:
        return self._table[_codes(text)].tolist()

    def encode_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        counts = np.fromiter(map(len, texts), np.int64, len(texts))
        return self._table[_codes("".join(texts))], counts

    def decode(self, ids: Sequence[int]) -> str:
        self.check_ids(ids)
        return "".join([self._texts[token_id] for token_id in ids])

    def token_text(self, token_id: int) -> str:
        self.check_ids([token_id])
        return "<unk>" if token_id == self.unknown_id else self._texts[token_id]

    def byte_lengths(self) -> np.ndarray:
        return np.array([np.nan, *(len(character.encode()) for character in self._characters)], np.float64)

    def settings(self) -> dict[str, Any]:
        return {"characters": "".join(self._characters)}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> CharTokenizer:
        characters = settings.get("characters")
        if not isinstance(characters, str):
            raise DataError(
                "The settings of a char tokenizer need 'characters', one text of all known characters.", reason="bad-settings"
            )
        return cls(characters)


def _codes(text: str) -> np.ndarray:
    """The code points. Halves of characters (a terminal can hand them over) pass, and are unknown to every vocabulary."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


@TOKENIZERS.variant("char")
class CharTokenizerConfig(TokenizerConfig):
    """Characters of the training text, with one id for unknown ones."""

    vocab: int | None = Field(default=None, ge=2)
    min_count: int = Field(default=1, ge=1)

    def train(self, texts: Callable[[], Iterable[str]], progress: Progress | None = None) -> CharTokenizer:
        counts = np.zeros(_CODE_POINTS, np.int64)
        for text in map("".join, in_batches(texts())):
            if not text:
                continue
            codes = _codes(text)
            counts[: int(codes.max()) + 1] += np.bincount(codes)
            if progress:
                progress(len(text.encode("utf-8", "surrogatepass")))
        counts[0xD800:0xE000] = 0  # halves of characters have no bytes, so they never get an id
        known = np.flatnonzero(counts >= self.min_count)
        if self.vocab is not None and len(known) > self.vocab - 1:
            often = np.argsort(-counts[known], kind="stable")  # equally frequent ones: the lower code point
            known = np.sort(known[often[: self.vocab - 1]])
        if not len(known):
            raise DataError(
                "There are no characters to learn: the training text is empty, or tokenizer.min_count is too high.",
                reason="nothing-to-learn",
            )
        return CharTokenizer([chr(code) for code in known])
