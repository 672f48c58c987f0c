"""Pairs of texts by split, with notes about empty, repeated and shared ones; and texts to translate, without targets.

Read from two parallel files or from a table with columns ``source`` and ``target``. The validation share is drawn by
``data.split.seed`` alone. Does not encode and imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.memory_cache import MemoryCache
from glassformer.data.prepare import trained_tokenizer
from glassformer.data.reading.corpus import PairRow, PairSource, Skipped, format_by_name, read_pairs
from glassformer.data.reading.named_sets import PairSources
from glassformer.data.reading.readers import given_texts, text_per_line
from glassformer.data.reading.sources import cached_rows, find_pair_sources, pair_source_at, parallel_files
from glassformer.data.reading.splits import SplitRows
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.two import TwoTokenizers, TwoTokenizersConfig
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import DataError, UsageError

PairRows = tuple[tuple[PairRow, ...], Skipped]
_rows = MemoryCache[PairRows](6, lambda read: sum(2 * len(row.source) + 2 * len(row.target) + 200 for row in read[0]))


@dataclass(frozen=True)
class Pairs:
    """Sources and their targets; ``targets`` is None for texts to translate. ``ids``: file name and line.

    ``seen``: whether a source also occurs among the training sources; None: not known.
    """

    name: str
    sources: tuple[str, ...]
    targets: tuple[str, ...] | None
    ids: tuple[str, ...]
    seen: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def answers(self) -> tuple[str, ...] | None:
        """What ``ask`` compares with."""
        return self.targets

    @property
    def fingerprint(self) -> str:
        """A checksum of the texts, since ``ids`` do not distinguish two files of one name."""
        return fingerprint([self.sources, self.targets])

    def chosen(self, places: Sequence[int]) -> Pairs:
        targets = None if self.targets is None else tuple(self.targets[at] for at in places)
        seen = None if self.seen is None else self.seen[list(places)]
        return Pairs(self.name, tuple(self.sources[at] for at in places), targets, tuple(self.ids[at] for at in places), seen)

    def require_targets(self) -> tuple[str, ...]:
        """The targets; refused for texts alone."""
        if self.targets is None:
            raise UsageError(
                "These texts have no translations to compare with; give pairs (evaluate --data FILE with source and target), "
                "or use `glassformer translate`.",
                reason="no-targets",
            )
        return self.targets


@final
class PairsPart(SplitRows[PairRow, Pairs]):
    """The pairs of a recipe's data."""

    what: ClassVar[str] = "pairs"

    def __init__(self, data: DataConfig, *, expect: Mapping[str, Any] | None = None) -> None:
        self._empty = dict[str, int]()
        super().__init__(data, expect=expect)

    def _find(self, data: DataConfig) -> PairSources:
        return find_pair_sources(data)

    def _read(self, source: PairSource) -> PairRows:
        return cached_rows(_rows, source, read_pairs)

    def _kept(self, name: str, source: PairSource, rows: Sequence[PairRow]) -> Sequence[PairRow]:
        """The pairs in which both texts say something."""
        full = [row for row in rows if row.source and row.target]
        self._empty[name] = len(rows) - len(full)
        return super()._kept(name, source, full)

    def _items(self, name: str, rows: Sequence[PairRow]) -> Pairs:
        pairs = _pairs_of_rows(name, rows)
        if name == "train":
            self._trained_on = set(pairs.sources)
            return pairs
        return replace(pairs, seen=np.array([source in self._trained_on for source in pairs.sources]))

    def _source_at(self, path: str | Path) -> PairSource:
        return pair_source_at(str(path), self._data)

    def learn(self, config: TokenizerConfig) -> Tokenizer:
        """The tokenizer trained on the training pairs: one on both sides, or one for each; cached."""
        train = self._splits["train"]

        def learned(part: TokenizerConfig, *texts: tuple[str, ...]) -> Tokenizer:
            return trained_tokenizer(part, lambda: (text for side in texts for text in side), "pairs", fingerprint(texts))

        if isinstance(config, TwoTokenizersConfig):
            assert train.targets is not None
            return TwoTokenizers(learned(config.source, train.sources), learned(config.target, train.targets))
        return learned(config, train.sources, train.targets or ())

    @property
    def notes(self) -> list[str]:
        """Notes: sizes, empty and repeated pairs, and what validation and tests share with the training pairs."""
        sizes = ", ".join(f"{len(pairs):,} {name}" for name, pairs in self._splits.items())
        found = [f"Pairs of texts: {sizes}."]
        for name, empty in self._empty.items():
            if empty:
                found.append(f"{empty:,} of the {name} pairs have an empty source or target and were left out.")
        for name, pairs in self._splits.items():
            both = set(zip(pairs.sources, pairs.targets or ()))
            if len(both) < len(pairs):
                found.append(f"{len(pairs) - len(both):,} of the {len(pairs):,} {name} pairs repeat an earlier pair.")
            again = 0 if pairs.seen is None else int(pairs.seen.sum())
            if again:
                found.append(
                    f"{again} of the {len(pairs):,} {name} sources ({again / len(pairs):.1%}) occur word for word among the "
                    "training sources: what is right there may be memory."
                )
        return [*found, *super().notes]

    @property
    def record(self) -> dict[str, Any]:
        """With the number of pairs."""
        return {**super().record, "splits": {name: {"pairs": len(pairs)} for name, pairs in self._splits.items()}}


def load_pairs(
    data: DataConfig,
    tokenizer: TokenizerConfig | Tokenizer,
    *,
    marks: Sequence[str] = (),
    progress: Any = None,
    expect: Mapping[str, Any] | None = None,
) -> PairsPart:
    """The pairs with a tokenizer: an existing one, or one trained on the training pairs."""
    part = PairsPart(data, expect=expect)
    part.tokenizer = (part.learn(tokenizer) if isinstance(tokenizer, TokenizerConfig) else tokenizer).with_marks(marks)
    return part


def pairs_of_file(
    tokenizer: Tokenizer, path: Path | str, reading: DataConfig, *, record: Mapping[str, Any] | None = None
) -> Pairs:
    """A user's pairs. Sources of the training pairs are marked as seen where the run's data are still there."""
    try:
        return PairsPart(reading, expect=record).file(path)
    except DataError as error:
        if record is None or error.reason not in ("missing-file", "set-not-here"):
            raise
    rows = [row for row in read_pairs(pair_source_at(str(path), reading)) if row.source and row.target]
    if not rows:
        raise DataError("there are no pairs in it; give at least one.", file=path, reason="no-rows")
    return _pairs_of_rows(str(path), rows)


def sources_of_texts(
    tokenizer: Tokenizer, texts: str | Sequence[str], *, pairs: Any = None, name: str = "text", record: Any = None
) -> Pairs:
    """Texts to translate, given as strings."""
    given = given_texts(texts, pairs=pairs)
    return Pairs(name, tuple(given), None, tuple(f"{name}:{n + 1}" for n in range(len(given))))


def sources_of_file(
    tokenizer: Tokenizer, path: Path | str, reading: DataConfig, *, record: Mapping[str, Any] | None = None
) -> Pairs:
    """Texts to translate: a text file with one source per line, or pairs, whose targets are then known."""
    file = Path(path).expanduser()
    if parallel_files(str(path)) is not None or (reading.format or format_by_name(file)) != "text":
        return pairs_of_file(tokenizer, path, reading, record=record)
    if not file.is_file():
        raise DataError("does not exist; check the path.", file=file, reason="missing-file")
    texts = list(text_per_line(file))
    if not texts:
        raise DataError("has no texts; write one per line.", file=file, reason="no-rows")
    return sources_of_texts(tokenizer, texts, name=file.name)


def _pairs_of_rows(name: str, rows: Sequence[PairRow]) -> Pairs:
    ids = tuple(f"{row.file.name}:{row.line}" for row in rows)
    return Pairs(name, tuple(row.source for row in rows), tuple(row.target for row in rows), ids)
