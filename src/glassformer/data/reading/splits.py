"""Documents and rows of tables -> splits: at random, or by position when a text has too few documents.

The order within a split is that of the text. The random split depends on ``data.split.seed`` only, never on a training seed.
``SplitRows`` is what labelled texts and pairs of texts share: training and validation are read at once, tests on request; a
file that changed since a run began is refused. Imports no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar, final

import numpy as np

from glassformer.data.config import DataConfig, SplitConfig
from glassformer.data.reading.corpus import Document, Skipped
from glassformer.data.reading.sources import at_places, fingerprint_of, places_of
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import DataError, UnknownName
from glassformer.foundation.seeds import derive_seed

SPLITS = ("train", "validation", "test")
_WORD_REACH = 100  # a cut is moved to the end of a word, but not further than this


@dataclass(frozen=True)
class Survey:
    """Counts from a first pass over the text."""

    documents: int
    characters: int
    bytes: int


def survey(documents: Iterable[Document]) -> Survey:
    count = characters = size = 0
    for document in documents:
        count += not document.continues
        characters += len(document.text)
        size += len(document.text) if document.text.isascii() else len(document.text.encode())
    return Survey(count, characters, size)


@final
class Assignment:
    """The split of each document. ``by``: document, position, or nothing (all training)."""

    def __init__(self, found: Survey, split: SplitConfig) -> None:
        self.shares = {"validation": split.validation, "test": split.test}
        held_out = [part for part in SPLITS[1:] if self.shares[part] > 0]
        self.splits = ["train", *held_out]
        self.by: Literal["document", "position", "nothing"]
        self.by = "nothing" if not held_out else "document" if found.documents >= len(self.splits) else "position"
        if self.by == "document":
            self._labels = draw_splits(found.documents, split)
        elif self.by == "position":
            ends = {"validation": 1 - split.validation - split.test, "test": 1 - split.test}  # where the part before each ends
            self._cuts = [int(found.characters * ends[part]) for part in held_out]  # nanoGPT's cut, to the character

    def route(self, documents: Iterable[Document]) -> Iterator[tuple[str, Document]]:
        """(split, document) for each document; by position, the one at the cut is divided."""
        if self.by == "position":
            return self._by_position(documents)
        return self._by_document(documents)

    def _by_document(self, documents: Iterable[Document]) -> Iterator[tuple[str, Document]]:
        number = -1
        part = "train"
        for document in documents:
            if not document.continues:
                number += 1
                if self.by == "document" and number >= len(self._labels):
                    raise DataError(
                        "changed while it was read; start again once nothing writes to it.",
                        file=document.source,
                        reason="changed-while-read",
                    )
                part = "train" if self.by == "nothing" else SPLITS[self._labels[number]]
            yield part, document

    def _by_position(self, documents: Iterable[Document]) -> Iterator[tuple[str, Document]]:
        done, part = 0, 0
        for document in documents:
            while part < len(self._cuts) and done + len(document.text) > self._cuts[part]:
                place = _outside_word(document.text, self._cuts[part] - done)
                if place > 0:
                    yield self.splits[part], replace(document, text=document.text[:place])
                line = document.line + document.text.count("\n", 0, place)
                document = replace(document, text=document.text[place:], line=line, continues=False)
                done, part = done + place, part + 1
            yield self.splits[part], document  # never empty: there is text after the cut
            done += len(document.text)


def require_split(name: str, known: Sequence[str]) -> None:
    """Raises if there is no such split, and says how to get one."""
    if name not in known and name not in SPLITS:
        raise UnknownName("--split", name, known)
    if name not in known:
        raise DataError(
            f"There is no {name} split; there are: {', '.join(known)}. Hold one out with data.split.{name}, or give a file "
            f"with data.{name}.",
            reason="no-split",
        )


def refuse_changed(before: Mapping[str, str], now: Mapping[str, str], what: str, file: str) -> None:
    """Raises unless the files are those of ``before``, where a run recorded them. Both: the sha256 of each split with files."""
    for name, sha256 in now.items():
        if name in before and sha256 != before[name]:
            raise DataError(
                f"the {name} {what} changed since the run began: the sha256 is {sha256[:12]}, and it was {before[name][:12]}. "
                "Restore the old file, or start a new run.",
                file=file,
                reason="text-changed",
            )
    for split in SPLITS[1:] if before else ():
        had, has = (any(name.startswith(split) for name in names) for names in (before, now))
        if had != has:
            raise DataError(
                f"the run began {'with' if had else 'without'} separate {split} {what}, so the training {what} would now be "
                f"split differently. {'Name it again' if had else f'Leave data.{split} out'}, or start a new run.",
                file=file,
                reason="text-missing",
            )


def draw_splits(count: int, split: SplitConfig) -> np.ndarray:
    """uint8 [count]: the split of each document, as an index into SPLITS. Each split gets at least one document."""
    order = np.random.default_rng(derive_seed(split.seed, "split")).permutation(np.arange(count, dtype=np.uint32))
    test = max(1, round(split.test * count)) if split.test > 0 else 0
    validation = max(1, round(split.validation * count)) if split.validation > 0 else 0
    test = min(test, count - 1 - min(validation, 1))
    validation = min(validation, count - 1 - test)
    labels = np.zeros(count, np.uint8)
    labels[order[:validation]] = 1
    labels[order[validation : validation + test]] = 2
    return labels


def draw_splits_by_class(classes: Sequence[str], split: SplitConfig) -> np.ndarray:
    """Splits each class separately. A class of two or more has members in training and in the first held-out split."""
    labels, of = np.zeros(len(classes), np.uint8), np.array(classes, dtype=object)
    for name in sorted(set(classes)):
        places = np.flatnonzero(of == name)
        if len(places) > 1:  # a single one is trained on
            own = split.model_copy(update={"seed": derive_seed(split.seed, "class", name)})
            labels[places] = draw_splits(len(places), own)
    return labels


def _outside_word(text: str, place: int) -> int:
    """``place``, or the next one (else the one before) that is not between two letters or digits."""
    place = max(place, 0)
    later = range(place, min(len(text), place + _WORD_REACH))
    earlier = range(place - 1, max(0, place - _WORD_REACH), -1)
    for moved in (*later, *earlier):
        if moved == 0 or not (text[moved - 1].isalnum() and text[moved].isalnum()):
            return moved
    return place


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
        refuse_changed(before, self._fingerprints, self.what, found.train.name)
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
        return self._skipped.notes

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
