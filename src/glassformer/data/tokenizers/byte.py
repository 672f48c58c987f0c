"""Bytes as tokens: every text in every language, 256 ids, nothing to learn and nothing unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from glassformer.data.tokenizers.base import TOKENIZERS, Progress, Tokenizer, TokenizerConfig, utf8


@final
class ByteTokenizer(Tokenizer):
    """The id of a byte is its value."""

    kind = "byte"

    @property
    def size(self) -> int:
        return 256

    def encode(self, text: str) -> list[int]:
        return list(utf8(text))

    def encode_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        encoded = [utf8(text) for text in texts]
        counts = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.frombuffer(b"".join(encoded), np.uint8), counts

    def decode(self, ids: Sequence[int]) -> str:
        """Bytes that are no character (a sample cut in the middle of one) become the replacement sign."""
        self.check_ids(ids)
        return bytes(ids).decode("utf-8", errors="replace")

    def token_text(self, token_id: int) -> str:
        self.check_ids([token_id])
        return chr(token_id) if 0x20 <= token_id < 0x7F else f"<0x{token_id:02X}>"

    def byte_lengths(self) -> np.ndarray:
        return np.ones(256)

    def settings(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> ByteTokenizer:
        return cls()


@TOKENIZERS.variant("byte")
class ByteTokenizerConfig(TokenizerConfig):
    """Bytes of UTF-8: 256 ids, nothing unknown."""

    learns = False

    def train(self, texts: Callable[[], Iterable[str]], progress: Progress | None = None) -> ByteTokenizer:
        return ByteTokenizer()
