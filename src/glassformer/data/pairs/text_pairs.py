"""Pairs of texts by split, with notes about empty, repeated and shared ones; and texts to translate, without targets.

Read from two parallel files or from a table with columns ``source`` and ``target``. The validation share is drawn by
``data.split.seed`` alone. Does not encode and imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.memory_cache import MemoryCache
from glassformer.data.prepare import trained_tokenizer
from glassformer.data.reading.corpus import PairRow, PairSource, Skipped, format_by_name, read_pairs
from glassformer.data.reading.readers import text_per_line
from glassformer.data.reading.sources import (
    at_places,
    cached_rows,
    find_pair_sources,
    fingerprint_of,
    pair_source_at,
    parallel_files,
    places_of,
)
from glassformer.data.reading.splits import SPLITS, draw_splits, require_split
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.two import TwoTokenizers, TwoTokenizersConfig
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import DataError, UsageError

PairRows = tuple[tuple[PairRow, ...], Skipped]
_rows = MemoryCache[PairRows](6, lambda read: sum(2 * len(row.source) + 2 * len(row.target) + 200 for row in read[0]))


def rows_of(source: PairSource) -> PairRows:
    """The pairs of a source and its skipped lines; cached in memory, since every trial of a study reads the same files."""
    return cached_rows(_rows, source, read_pairs)


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
class PairsPart:
    """The pairs of a recipe's data. Training and validation are read immediately, tests on request."""

    tokenizer: Tokenizer
    """Set by ``load_pairs``: reading pairs needs none."""

    def __init__(self, data: DataConfig, *, expect: Mapping[str, Any] | None = None) -> None:
        before = (expect or {}).get("fingerprints", {})
        self._data = at_places(data, (expect or {}).get("places", {}))
        self._sources = found = find_pair_sources(self._data)
        own = {"validation": found.validation} if found.validation else {}
        self._tests = {f"test:{name}" if len(found.tests) > 1 else "test": test for name, test in found.tests.items()}
        self._fingerprints = {name: fingerprint_of(one) for name, one in {"train": found.train, **own, **self._tests}.items()}
        if before and before != self._fingerprints:
            name = next(name for name in {**before, **self._fingerprints} if before.get(name) != self._fingerprints.get(name))
            raise DataError(
                f"the {name} pairs are not those that the run began with (their sha256 differs, or they came or went). "
                "Restore the old files, or start a new run.",
                file=found.train.name,
                reason="text-changed",
            )
        self._skipped, self._empty = Skipped(), dict[str, int]()
        self._splits = self._train_and_validation()

    def _train_and_validation(self) -> dict[str, Pairs]:
        found = self._sources
        rows = self._rows("train", found.train)
        shares = self._data.split.held_out(validation=not found.validation, test=not found.tests)
        if len(rows) < 2 + bool(shares.test):
            raise DataError(
                f"there are {len(rows)} pairs of texts; give at least {2 + bool(shares.test)}.",
                file=found.train.name,
                reason="too-few-pairs",
            )
        drawn = draw_splits(len(rows), shares)
        splits = {}
        for number, name in enumerate(SPLITS):
            if chosen := [row for row, at in zip(rows, drawn) if at == number]:
                splits[name] = self._pairs(name, chosen)
        if found.validation:
            splits["validation"] = self._pairs("validation", self._rows("validation", found.validation))
        return splits

    def _rows(self, name: str, source: PairSource) -> list[PairRow]:
        """The pairs of a source in which both texts say something."""
        rows, skipped = rows_of(source)
        self._skipped.count += skipped.count
        self._skipped.examples += skipped.examples[: max(0, 5 - len(self._skipped.examples))]
        full = [row for row in rows if row.source and row.target]
        self._empty[name] = len(rows) - len(full)
        if not full:
            raise DataError(
                "there are no pairs in it; give at least one source with its target.", file=source.name, reason="no-rows"
            )
        return full

    def _pairs(self, name: str, rows: Sequence[PairRow]) -> Pairs:
        pairs = _pairs_of_rows(name, rows)
        if name == "train":
            self._trained_on = set(pairs.sources)
            return pairs
        return replace(pairs, seen=np.array([source in self._trained_on for source in pairs.sources]))

    @property
    def names(self) -> list[str]:
        """The splits there are: train, and validation and test where they exist."""
        there = {*self._splits, *(["test"] if self._tests else [])}
        return [name for name in SPLITS if name in there]

    @property
    def tests(self) -> list[str]:
        """``test:NAME`` for each of several test files; ``split("test")`` is then all of them, one after another."""
        return [name for name in self._tests if name != "test"]

    def split(self, name: str) -> Pairs:
        """One split; a test is read on the first call."""
        require_split(name, [*self.names, *self.tests])
        if name == "test" and self.tests:
            return self._pairs(name, [row for test, source in self._tests.items() for row in self._rows(test, source)])
        if name not in self._splits:
            self._splits[name] = self._pairs(name, self._rows(name, self._tests[name]))
        return self._splits[name]

    def file(self, path: str | Path) -> Pairs:
        """A user's pairs, read like the recipe's."""
        return self._pairs(str(path), self._rows(str(path), pair_source_at(str(path), self._data)))

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
        if self._skipped.count:
            found.append(f"{self._skipped.count} bad lines were left out, the first: {self._skipped.examples[0]}")
        return found

    @property
    def record(self) -> dict[str, Any]:
        """The record in a run: sha256 by file, how the pairs were read, how many there are."""
        return {
            "schema": 1,
            "source": self._sources.train.name,
            "places": places_of(self._data),
            "sha256": self._fingerprints["train"],
            "fingerprints": self._fingerprints,
            "reading": self._sources.train.reading,
            "splits": {name: {"pairs": len(pairs)} for name, pairs in self._splits.items()},
            "skipped_lines": self._skipped.count,
            "notes": self.notes,
        }


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
    if pairs is not None:
        raise UsageError("This run translates single texts; drop --pair.", reason="no-pairs")
    given = [texts] if isinstance(texts, str) else list(texts)
    if odd := [text for text in given if not isinstance(text, str)]:
        raise UsageError(f"A text must be a string, but {odd[0]!r} is {type(odd[0]).__name__}.", reason="not-text")
    if not given or not all(text.strip() for text in given):
        raise DataError("The text is empty, so there is nothing to translate; give at least one word.", reason="empty-text")
    return Pairs(name, tuple(text.strip() for text in given), None, tuple(f"{name}:{n + 1}" for n in range(len(given))))


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
