"""Words as tokens: words and punctuation in Treebank manner, a counted vocabulary, UNK for the rest.

Decoding gives running text, not the text that went in: which white space stood where is lost. Every run of characters
between spaces is cut once and cached, so encoding is mostly look-ups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, final

import numpy as np
from pydantic import Field

from glassformer.data.tokenizers.base import TOKENIZERS, Progress, Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.treebank import LONGEST_WORD, RULES, cut_run, running_text, stable_words
from glassformer.foundation.errors import DataError

PAD, UNK, START, STOP = "<pad>", "<unk>", "<start>", "<stop>"

_RUNS_CACHED = 1 << 18  # about 60 MB
_WORDS_COUNTED = 1 << 20  # about 200 MB; beyond that the rarest are dropped while counting


@final
class WordTokenizer(Tokenizer):
    """PAD, UNK, then (with marks) START and STOP around each document, then the words, the most frequent first."""

    kind = "word"
    pad_id = 0
    unknown_id = 1

    def __init__(self, words: Sequence[str], *, lowercase: bool = False, marks: bool = True, dropped: int = 0) -> None:
        special = [PAD, UNK, START, STOP] if marks else [PAD, UNK]
        self._texts = [*special, *words]
        self._words = list(words)
        self._lowercase, self._marks, self.dropped = lowercase, marks, dropped
        if marks:
            self.start_id, self.stop_id = 2, 3
        self._ids = {word: number for number, word in enumerate(self._texts) if number >= len(special)}
        if len(self._ids) != len(words):
            raise DataError("The words of a word tokenizer must all be different.", reason="bad-settings")
        self._runs = _Runs(self)

    @property
    def size(self) -> int:
        return len(self._texts)

    def encode(self, text: str) -> list[int]:
        return list(chain.from_iterable(map(self._runs.__getitem__, text.split())))

    def ids_of_run(self, run: str) -> tuple[int, ...]:
        """The ids of the words in one run without white space."""
        words = cut_run(run)
        if self._lowercase:
            words = [word.lower() for word in words]
        return tuple([self._ids.get(word, self.unknown_id) for word in words])

    def decode(self, ids: Sequence[int]) -> str:
        """Running text; a new line where one document stops and the next begins."""
        self.check_ids(ids)
        documents: list[list[str]] = [[]]
        for token_id in ids:
            if token_id == self.stop_id:
                documents.append([])
            elif token_id not in (self.start_id, self.pad_id):
                documents[-1].append(self._texts[token_id])
        return "\n".join(running_text(words) for words in documents if words)

    def stable_length(self, ids: Sequence[int]) -> int:
        begin = next((at for at in range(len(ids), 0, -1) if ids[at - 1] == self.stop_id), 0)
        silent = (self.start_id, self.pad_id)
        places = [at for at in range(begin, len(ids)) if ids[at] not in silent and ids[at] < self.size]
        certain = stable_words([self._texts[ids[at]] for at in places])
        return len(ids) if certain == len(places) else places[certain]

    def token_text(self, token_id: int) -> str:
        self.check_ids([token_id])
        return self._texts[token_id]

    def byte_lengths(self) -> np.ndarray:
        """Of the words only: white space between them belongs to no token."""
        lengths = np.zeros(self.size)
        lengths[self.size - len(self._words) :] = [len(word.encode("utf-8", "surrogatepass")) for word in self._words]
        lengths[self.unknown_id] = np.nan
        return lengths

    def settings(self) -> dict[str, Any]:
        return {
            "rules": RULES,
            "lowercase": self._lowercase,
            "marks": self._marks,
            "dropped": self.dropped,
            "words": list(self._words),
        }

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> WordTokenizer:
        words = settings.get("words")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DataError("The settings of a word tokenizer need 'words', a list of texts.", reason="bad-settings")
        if settings.get("rules") != RULES:
            raise DataError(
                f"The words were split by rules {settings.get('rules')!r}; this version uses {RULES}; train it again.",
                reason="other-rules",
            )
        return cls(
            words,
            lowercase=bool(settings.get("lowercase")),
            marks=bool(settings.get("marks")),
            dropped=int(settings.get("dropped", 0)),
        )


@final
class _Runs(dict[str, tuple[int, ...]]):
    """A cache: run of characters -> ids; emptied when it grows too large."""

    def __init__(self, tokenizer: WordTokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, run: str) -> tuple[int, ...]:
        ids = self._tokenizer.ids_of_run(run)
        if len(run) <= LONGEST_WORD:
            if len(self) >= _RUNS_CACHED:
                self.clear()
            self[run] = ids
        return ids


@final
class _WordCounts:
    """How often each word was seen, in bounded memory: exact as long as there are fewer than ``most`` different words."""

    def __init__(self, lowercase: bool, most: int) -> None:
        self._lowercase, self._most = lowercase, most
        self._runs: Counter[str] = Counter()
        self.words: Counter[str] = Counter()
        self.dropped = 0

    def add(self, text: str) -> None:
        self._runs.update(text.split())
        if len(self._runs) > _RUNS_CACHED:
            self.fold()

    def fold(self) -> None:
        """Splits each distinct run once and adds its words as often as it occurred."""
        for run, count in self._runs.items():
            for word in cut_run(run):
                if len(word) <= LONGEST_WORD:
                    self.words[word.lower() if self._lowercase else word] += count
        self._runs.clear()
        rare = 1
        while len(self.words) > self._most:
            frequent = Counter({word: count for word, count in self.words.items() if count > rare})
            self.dropped += len(self.words) - len(frequent)
            self.words = frequent
            rare *= 2


@TOKENIZERS.variant("word")
class WordTokenizerConfig(TokenizerConfig):
    """Words and punctuation in Treebank style ("do n't"), with UNK for rare ones.

    ``min_count`` is 2 by default: words seen once become UNK, so the model learns what an unknown word is. ``marks`` puts
    START and STOP around each document. ``vocab`` is the most ids there may be, special ones included.
    """

    vocab: int | None = Field(default=None, ge=5)
    min_count: int = Field(default=2, ge=1)
    lowercase: bool = False
    marks: bool = True

    def train(self, texts: Callable[[], Iterable[str]], progress: Progress | None = None) -> WordTokenizer:
        counts = _WordCounts(self.lowercase, _WORDS_COUNTED)
        for text in texts():
            counts.add(text)
            if progress:
                progress(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))
        counts.fold()
        counts.words.pop(UNK, None)  # text that already has <unk> in it, as wikitext does, means the same by it
        often = [(word, count) for word, count in counts.words.items() if count >= self.min_count]
        often.sort(key=lambda item: (-item[1], item[0]))
        words = [word for word, _ in often]
        if self.vocab is not None:
            words = words[: self.vocab - (4 if self.marks else 2)]
        if not words:
            raise DataError(
                "There are no words to learn: the training text is empty, or tokenizer.min_count is too high.",
                reason="nothing-to-learn",
            )
        return WordTokenizer(words, lowercase=self.lowercase, marks=self.marks, dropped=counts.dropped)
