"""Duplicate documents within a split or between two, by 64-bit hashes, in bounded memory.

A hash collision is expected once in some billions of documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_AT_ONCE = 1 << 22  # hashes sorted at a time: 32 MiB, and four times that while sorting
EXAMPLES = 3


@dataclass(frozen=True)
class Repeats:
    """The number of duplicates, and the first few as (document, the earlier one)."""

    count: int = 0
    examples: tuple[tuple[int, int], ...] = ()


def repeats_within(hashes: np.ndarray) -> Repeats:
    """Documents that equal an earlier one of the same split."""
    count = 0
    found: list[tuple[int, int]] = []
    bits = max(0, (len(hashes) // _AT_ONCE).bit_length())
    for bucket in range(1 << bits):  # equal hashes share their first bits, so buckets are independent
        places = np.arange(len(hashes)) if not bits else np.flatnonzero(hashes >> np.uint64(64 - bits) == bucket)
        inside = np.asarray(hashes[places])
        order = np.argsort(inside, kind="stable")
        ordered = inside[order]
        same = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
        count += len(same)
        later = places[order[same]]
        for place in np.sort(later)[:EXAMPLES].tolist():
            first = places[order[np.searchsorted(ordered, hashes[place])]]
            found.append((place, int(first)))
    return Repeats(count, tuple(sorted(found)[:EXAMPLES]))


def repeats_of(train: np.ndarray, held_out: np.ndarray) -> Repeats:
    """Documents of ``held_out`` that also occur in ``train``."""
    order = np.argsort(held_out, kind="stable")
    ordered = np.asarray(held_out)[order]
    seen = np.full(len(held_out), -1, np.int64)  # for each held-out document, its first place in train
    for start in range(0, len(train), _AT_ONCE):
        part = np.asarray(train[start : start + _AT_ONCE])
        values, first = np.unique(part, return_index=True)
        at = np.searchsorted(values, ordered)
        at[at == len(values)] = 0
        hit = (values[at] == ordered) & (seen[order] < 0) if len(values) else np.zeros(len(ordered), bool)
        seen[order[hit]] = first[at[hit]] + start
    which = np.flatnonzero(seen >= 0)
    return Repeats(len(which), tuple((place, int(seen[place])) for place in which[:EXAMPLES].tolist()))
