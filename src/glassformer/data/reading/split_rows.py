"""Rows of tables by split: what labelled texts and pairs of texts share.

Training and validation are read at once, tests on request; a file that changed since a run began is refused. Imports no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from glassformer.data.config import DataConfig, SplitConfig
from glassformer.data.reading.corpus import Skipped
from glassformer.data.reading.sources import at_places, fingerprint_of, places_of
from glassformer.data.reading.splits import SPLITS, draw_splits, require_split
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import DataError

R = TypeVar("R")
T = TypeVar("T")


class SplitRows(ABC, Generic[R, T]):
    """Subclasses find and read the rows ``R`` of their sources and make items ``T`` of them."""

    what: ClassVar[str]
    """The rows, in an error."""
    tokenizer: Tokenizer
    """Set once they are loaded: reading rows needs none."""

    def __init__(self, data: DataConfig, *, expect: Mapping[str, Any] | None = None) -> None:
        before = (expect or {}).get("fingerprints", {})
        self._data = at_places(data, (expect or {}).get("places", {}))
        self._sources = found = self._find(self._data)
        own = {"validation": found.validation} if found.validation else {}
        several = self._names_tests(found)
        self._tests = {f"test:{name}" if several else "test": source for name, source in found.tests.items()}
        self._fingerprints = {name: fingerprint_of(one) for name, one in {"train": found.train, **own, **self._tests}.items()}
        self._refuse_others(before)
        self._skipped = Skipped()
        self._splits = self._train_and_validation()

    @abstractmethod
    def _find(self, data: DataConfig) -> Any:
        """The sources: ``train``, ``validation`` and ``tests``."""

    @abstractmethod
    def _read(self, source: Any) -> tuple[Sequence[R], Skipped]:
        """The rows of a source and its skipped lines."""

    @abstractmethod
    def _items(self, name: str, rows: Sequence[R]) -> T:
        """The items of a split; those of ``train`` are made first."""

    def _names_tests(self, found: Any) -> bool:
        """Whether tests are called ``test:NAME``."""
        return len(found.tests) > 1

    def _kept(self, name: str, source: Any, rows: Sequence[R]) -> Sequence[R]:
        """The rows that are used; raises where there are none."""
        if not rows:
            raise DataError(f"there are no {self.what} in it; give at least one.", file=source.name, reason="no-rows")
        return rows

    def _drawn(self, rows: Sequence[R], shares: SplitConfig) -> np.ndarray:
        """The split of each row, as an index into SPLITS."""
        return draw_splits(len(rows), shares)

    def _refuse_others(self, before: Mapping[str, str]) -> None:
        """Raises unless the files are those of ``before``, where a run recorded them."""
        file = self._sources.train.name
        for name, sha256 in self._fingerprints.items():
            if name in before and sha256 != before[name]:
                raise DataError(
                    f"the {name} {self.what} changed since the run began: their sha256 is {sha256[:12]}, and it was "
                    f"{before[name][:12]}. Restore the old file, or start a new run.",
                    file=file,
                    reason="text-changed",
                )
        for split, own in (("validation", self._sources.validation), ("test", self._sources.tests)):
            if before and any(name.startswith(split) for name in before) != bool(own):
                raise DataError(
                    f"the run began {'without' if own else 'with'} separate {split} {self.what}, so they would now be split "
                    f"differently. {f'Leave data.{split} out' if own else 'Name them again'}, or start a new run.",
                    file=file,
                    reason="text-missing",
                )

    def _train_and_validation(self) -> dict[str, T]:
        found = self._sources
        rows = self._rows("train", found.train)
        shares = self._data.split.held_out(validation=not found.validation, test=not found.tests)
        if len(rows) < 2 + bool(shares.test):
            raise DataError(
                f"there are {len(rows)} {self.what}; give at least {2 + bool(shares.test)}.",
                file=found.train.name,
                reason="too-few-rows",
            )
        drawn, splits = self._drawn(rows, shares), dict[str, T]()
        for number, name in enumerate(SPLITS):
            if chosen := [row for row, at in zip(rows, drawn) if at == number]:
                splits[name] = self._items(name, chosen)
        if found.validation:
            splits["validation"] = self._items("validation", self._rows("validation", found.validation))
        return splits

    def _rows(self, name: str, source: Any) -> Sequence[R]:
        """The rows of a source that are used; bad lines are added to ``_skipped``."""
        rows, skipped = self._read(source)
        self._skipped.count += skipped.count
        self._skipped.examples += skipped.examples[: max(0, 5 - len(self._skipped.examples))]
        return self._kept(name, source, rows)

    @property
    def names(self) -> list[str]:
        """The splits there are: train, and validation and test where they exist."""
        there = {*self._splits, *(["test"] if self._tests else [])}
        return [name for name in SPLITS if name in there]

    @property
    def tests(self) -> list[str]:
        """``test:NAME`` for each of several test files; ``split("test")`` is then all of them, one after another."""
        return [name for name in self._tests if name != "test"]

    def split(self, name: str) -> T:
        """One split; a test is read on the first call."""
        require_split(name, [*self.names, *self.tests])
        if name == "test" and self.tests:
            return self._items(name, [row for test, source in self._tests.items() for row in self._rows(test, source)])
        if name not in self._splits:
            self._splits[name] = self._items(name, self._rows(name, self._tests[name]))
        return self._splits[name]

    def file(self, path: str | Path) -> T:
        """A user's file, read like the recipe's data."""
        return self._items(str(path), self._rows(str(path), self._source_at(path)))

    @abstractmethod
    def _source_at(self, path: str | Path) -> Any:
        """The source of a user's file."""

    @property
    def notes(self) -> list[str]:
        """Lines that were left out."""
        skipped = self._skipped
        return [f"{skipped.count} bad lines were left out, the first: {skipped.examples[0]}"] if skipped.count else []

    @property
    def record(self) -> dict[str, Any]:
        """The record in a run: sha256 by file, how the rows were read."""
        return {
            "schema": 1,
            "source": self._sources.train.name,
            "places": places_of(self._data),
            "sha256": self._fingerprints["train"],
            "fingerprints": self._fingerprints,
            "reading": self._sources.train.reading,
            "skipped_lines": self._skipped.count,
            "notes": self.notes,
        }
