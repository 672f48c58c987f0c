"""Assigns documents to splits: at random by document, or by position when there are too few documents.

The order within a split is that of the text. The random split depends on ``data.split.seed`` only, never on a training seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np

from glassformer.data.config import SplitConfig
from glassformer.data.reading.corpus import Document
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
