"""The interface of every tokenizer, the slot they are named in, and their files.

A tokenizer's config is trained on texts (``train``) and gives a tokenizer: text -> ids -> text. Saved as one JSON file,
never pickle. Imports no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from glassformer.foundation.errors import DataError
from glassformer.foundation.files import write_json
from glassformer.foundation.registry import Slot, VariantConfig

Progress = Callable[[int], None]
"""Called with the number of bytes of text done since the last call."""

MASK = "<mask>"
"""The mask token."""

BATCH_CHARACTERS = 1 << 20


def joined_ids(encoded: Iterable[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """All ids in one array, and how many each text has."""
    arrays = [np.array(ids, np.uint32) for ids in encoded]
    counts = np.fromiter(map(len, arrays), np.int64, len(arrays))
    return np.concatenate([np.zeros(0, np.uint32), *arrays]), counts


def in_batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts in order, some at a time: one by one would be slow, and all of them may be more than memory holds."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def utf8(text: str) -> bytes:
    """The bytes of a text; half a character, which a terminal can hand over, is refused."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DataError(
            "The text contains half a character (a lone surrogate), which has no UTF-8 form; remove it.",
            reason="half-a-character",
        ) from None


class Tokenizer(ABC):
    """Text to ids and back. Immutable once made; equal files encode equally."""

    by_kind: ClassVar[dict[str, type[Tokenizer]]] = {}  # every class with a ``kind``, also those of plugins
    kind: ClassVar[str]
    revision: ClassVar[int] = 1  # incremented when a kind encodes the same text differently, which invalidates cached tokens
    start_id: int | None = None
    stop_id: int | None = None
    unknown_id: int | None = None
    pad_id: int | None = None
    mask_id: int | None = None  # of a tokenizer whose text has a mask of its own ([MASK]); it then is the mark MASK
    marks: tuple[str, ...] = ()  # special tokens of objectives; their ids are the last ones
    own_marks: Mapping[str, int] = MappingProxyType({})  # marks that are special tokens of the text's own (T5's <pad> begins)
    prefix: tuple[int, ...] = ()  # ids before every text of a pair (BART's <s>)

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            Tokenizer.by_kind[cls.kind] = cls

    @property
    @abstractmethod
    def size(self) -> int:
        """How many ids there are: 0 to size - 1."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of ``text`` without start or stop tokens."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``; an id out of range is a ``DataError``."""

    def stable_length(self, ids: Sequence[int]) -> int:
        """How many of ``ids``, from the first on, have a text that no later id can change."""
        return len(ids)

    @abstractmethod
    def token_text(self, token_id: int) -> str:
        """One token for display."""

    @abstractmethod
    def byte_lengths(self) -> np.ndarray:
        """float64 [size]: UTF-8 bytes per id; NaN where not fixed (UNK), 0 for special tokens."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything ``from_settings`` needs, as plain JSON values."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: dict[str, Any]) -> Tokenizer: ...

    def encode_document(self, text: str) -> list[int]:
        """The ids of one whole document, with start and stop tokens where the kind has them."""
        ids = self.encode(text)
        before = [] if self.start_id is None else [self.start_id]
        after = [] if self.stop_id is None else [self.stop_id]
        return [*before, *ids, *after] if before or after else ids

    def encode_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all texts joined, without marks, and how many each text has; a kind with a fast path replaces this."""
        return joined_ids(map(self.encode, texts))

    def with_marks(self, marks: Sequence[str]) -> Tokenizer:
        """This tokenizer with these special tokens after all its ids; those it has already keep theirs."""
        from glassformer.data.tokenizers.special_tokens import MarkedTokenizer  # a kind like the others: it imports this file

        has = (*self.marks, *self.own_marks, *((MASK,) if self.mask_id is not None else ()))
        new = [mark for mark in dict.fromkeys(marks) if mark not in has]
        return MarkedTokenizer(self, new) if new else self

    def mark_id(self, mark: str) -> int:
        """The id of one of ``marks``, or of the tokenizer's own mask."""
        if mark == MASK and mark not in self.marks and self.mask_id is not None:
            return self.mask_id
        if mark in self.own_marks:
            return self.own_marks[mark]
        if mark not in self.marks:
            raise DataError(
                f"This tokenizer has no mark {mark!r} (it has: {', '.join(self.marks) or 'none'}); start from a run whose "
                "objective uses it, or train from scratch.",
                reason="no-mark",
            )
        return self.size - len(self.marks) + self.marks.index(mark)

    def save(self, file: Path) -> None:
        write_json(file, {"schema": 1, "glassformer_tokenizer": self.kind, "settings": self.settings()})

    def check_ids(self, ids: Sequence[int]) -> None:
        for token_id in ids:
            if not 0 <= token_id < self.size:
                raise DataError(
                    f"The id {token_id} is out of range: the ids of this tokenizer are 0 to {self.size - 1}; "
                    "decode with the tokenizer that made the ids.",
                    reason="id-out-of-range",
                )


class TokenizerConfig(VariantConfig):
    """How a tokenizer is made. ``train`` reads the training texts once or twice."""

    learns: ClassVar[bool] = True  # False: does not depend on the texts, so there is nothing to cache
    revision: ClassVar[int] = 1  # incremented when the same texts give another tokenizer

    def train(self, texts: Callable[[], Iterable[str]], progress: Progress | None = None) -> Tokenizer:
        """A tokenizer for ``texts()`` (a function, so that a kind may read them again)."""
        raise NotImplementedError


class _TokenizerSlot(Slot[TokenizerConfig]):
    def parse(self, value: Any, at: str | None = None) -> Any:
        if isinstance(value, dict) and "file" in value and "kind" not in value:
            value = {"kind": "file", **value}  # `tokenizer: {file: tok.json}` says enough
        return super().parse(value, at)


TOKENIZERS: Slot[TokenizerConfig] = _TokenizerSlot("tokenizer", "text to ids and back", "glassformer.data.tokenizers")
