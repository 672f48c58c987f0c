"""Copies and near-copies: texts compared without case and spacing, and by MinHash of their shingles (Broder 1997).

A copy in capitals, or with two spaces, is a copy. Two texts are near-duplicates if the Jaccard similarity of their shingles
(runs of five characters, or of five tokens) is at least 0.8: candidates come from bands of MinHash values, and each is then
compared exactly. Imports no torch.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.foundation.seeds import mixed_bits

SIMILAR = 0.8
"""Jaccard similarity of shingles from which two texts are near-duplicates."""
SHINGLE = 5
"""Characters or tokens of a shingle."""
FEWEST = 16
"""Shingles of a text that is compared: in a shorter one, a word more or less is another text."""
BANDS, ROWS = 16, 4  # 64 MinHash values: of pairs at 0.8, one in 5,000 is missed
MOST_SYMBOLS, MOST_TEXTS = 20_000_000, 100_000
"""Characters or tokens, and texts, that are compared: seconds. A larger corpus is not."""
_AT_ONCE = 1 << 20
EXAMPLES = 3


def normalised(text: str) -> str:
    """The text without what does not make it another one: case, width and ligatures (NFKC), white space."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class Near:
    """``pairs``: (a text, an earlier one or one of the other side, their similarity), one for each text that nearly is another
    without being a copy of any. None: there were too many to compare."""

    pairs: tuple[tuple[int, int, float], ...] | None = ()

    @property
    def count(self) -> int:
        return len(self.pairs or ())


def near_duplicates_of(train: Sequence[np.ndarray], held_out: Sequence[np.ndarray]) -> Near:
    """Texts of ``held_out`` with a near-duplicate in ``train``. Texts are arrays of numbers: ``symbols``, or token ids."""
    if too_many(train, held_out):
        return Near(None)
    known = _first_places(train)
    new = {at: text for at, text in enumerate(held_out) if text.tobytes() not in known}
    firsts, places = list(known.values()), list(new)
    both = [*(train[at] for at in firsts), *new.values()]
    size, found = len(firsts), dict[int, tuple[int, float]]()
    for group in _candidates(both):
        sides = [at for at in group if at < size], [at for at in group if at >= size]
        _compare(both, ((later, first) for later in sides[1] for first in sides[0][:FEW_COMPARED]), found)
    return Near(tuple((places[later - size], firsts[first], score) for later, (first, score) in sorted(found.items())))


def near_duplicates_within(texts: Sequence[np.ndarray]) -> Near:
    """Texts with a near-duplicate before them; of equal texts, the first."""
    if too_many(texts):
        return Near(None)
    places = list(_first_places(texts).values())
    own, found = [texts[at] for at in places], dict[int, tuple[int, float]]()
    for group in _candidates(own):
        pairs = ((later, first) for place, later in enumerate(group) for first in group[:place][:FEW_COMPARED])
        _compare(own, pairs, found)
    return Near(tuple((places[later], places[first], score) for later, (first, score) in sorted(found.items())))


def too_many(*sides: Iterable[str | np.ndarray]) -> bool:
    """Whether there is more text than is compared: many texts, or long ones."""
    lengths = [len(text) for side in sides for text in side]
    return len(lengths) > MOST_TEXTS or sum(lengths) > MOST_SYMBOLS


def _first_places(texts: Sequence[np.ndarray]) -> dict[bytes, int]:
    """By its bytes, where each different text stands first."""
    found: dict[bytes, int] = {}
    for at, text in enumerate(texts):
        found.setdefault(text.tobytes(), at)
    return found


FEW_COMPARED = 8
"""Texts of a group of candidates that each other one is compared with: a template makes groups of thousands."""


def symbols(text: str) -> np.ndarray:
    """The characters of a text, normalised, as numbers."""
    return np.frombuffer(normalised(text).encode("utf-32-le", "surrogatepass"), np.uint32)


def _compare(texts: Sequence[np.ndarray], pairs: Iterable[tuple[int, int]], found: dict[int, tuple[int, float]]) -> None:
    """Adds the pairs that are similar, for texts that have none yet."""
    for later, first in pairs:
        if later not in found:
            score = jaccard(texts[later], texts[first])
            if score >= SIMILAR:
                found[later] = (first, score)


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """The shared part of two texts' shingles."""
    first, second = np.unique(_shingles(one)), np.unique(_shingles(other))
    shared = len(np.intersect1d(first, second, assume_unique=True))
    return shared / max(1, len(first) + len(second) - shared)


def _shingles(text: np.ndarray) -> np.ndarray:
    """uint64: a hash of each run of ``SHINGLE`` symbols of one text, or of several one after another."""
    values = text.astype(np.uint64)
    runs = np.zeros(max(0, len(values) - SHINGLE + 1), np.uint64)
    with np.errstate(over="ignore"):
        for offset in range(SHINGLE):
            runs = runs * np.uint64(0x100000001B3) + values[offset : offset + len(runs)]
        return mixed_bits(runs)


def _candidates(texts: Sequence[np.ndarray]) -> list[list[int]]:
    """Groups of texts that agree in a band of their MinHash values."""
    long = [at for at, text in enumerate(texts) if len(text) >= FEWEST + SHINGLE - 1]
    if len(long) < 2:
        return []
    hashes_NK = _minhashes([texts[at] for at in long])
    groups: dict[tuple[int, ...], list[int]] = {}
    for band in range(BANDS):
        part_NR = hashes_NK[:, band * ROWS : (band + 1) * ROWS]
        _, which_N = np.unique(part_NR, axis=0, return_inverse=True)
        which_N = which_N.reshape(-1)  # numpy 2.0 gives it a second axis
        order = np.argsort(which_N, kind="stable")
        starts = np.flatnonzero(np.diff(which_N[order], prepend=-1))
        sizes = np.diff(starts, append=len(order))
        for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist()):
            group = tuple(sorted(long[at] for at in order[start : start + size].tolist()))
            groups.setdefault(group, list(group))
    return list(groups.values())


def _minhashes(texts: Sequence[np.ndarray]) -> np.ndarray:
    """uint64 [N, BANDS * ROWS]: for each of as many orders, the first shingle of each text."""
    seeds = mixed_bits(np.arange(1, BANDS * ROWS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    found, start = np.zeros((len(texts), len(seeds)), np.uint64), 0
    with np.errstate(over="ignore"):
        while start < len(texts):
            end, size = start, 0
            while end < len(texts) and (end == start or size < _AT_ONCE):
                size += len(texts[end])
                end += 1
            sizes = np.array([len(text) for text in texts[start:end]])
            inside = np.arange(sizes.sum()) < np.repeat(np.cumsum(sizes), sizes) - SHINGLE + 1  # not from one text to the next
            whole = _shingles(np.concatenate(texts[start:end]))[inside[: sizes.sum() - SHINGLE + 1]]
            places = np.cumsum([0, *(sizes[:-1] - SHINGLE + 1)])
            for number, seed in enumerate(seeds):
                found[start:end, number] = np.minimum.reduceat((whole ^ seed) * np.uint64(0x9E3779B97F4A7C15 | 1), places)
            start = end
    return found
