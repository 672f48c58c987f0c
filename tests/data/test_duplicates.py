"""Repeated documents by their hashes: small cases on paper, and the same answer whatever is sorted at a time."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data import token_files
from glassformer.data.token_files import Duplicates, duplicates_of, duplicates_within

HIGH = 1 << 63


def hashes(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def test_within_names_the_first_occurrence() -> None:
    found = duplicates_within(hashes(5, HIGH, 5, 7, HIGH, 5))
    assert found == Duplicates(count=3, examples=((2, 0), (4, 1), (5, 0)))


def test_nothing_repeats() -> None:
    assert duplicates_within(hashes(1, 2, 3)) == Duplicates()
    assert duplicates_within(hashes()) == Duplicates()
    assert duplicates_of(hashes(1, 2), hashes(3)) == Duplicates()
    assert duplicates_of(hashes(), hashes(3)) == Duplicates()
    assert duplicates_of(hashes(1), hashes()) == Duplicates()


def test_of_names_the_first_place_in_train() -> None:
    assert duplicates_of(hashes(4, 9, 4, HIGH), hashes(1, HIGH, 4, 4)) == Duplicates(3, ((1, 3), (2, 0), (3, 0)))


def test_the_largest_hash_is_found() -> None:
    top = (1 << 64) - 1
    assert duplicates_of(hashes(top), hashes(0, top)).count == 1


@pytest.mark.parametrize("at_once", [3, 16, 1 << 22])
def test_the_portion_sorted_at_a_time_changes_nothing(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(token_files, "HASHES_AT_ONCE", at_once)
    rng = np.random.default_rng(5)
    train = rng.integers(0, 60, 97, dtype=np.uint64) << np.uint64(58)
    held_out = rng.integers(0, 60, 41, dtype=np.uint64) << np.uint64(58)
    seen: dict[int, int] = {}
    slow = [(place, seen[value]) for place, value in enumerate(train.tolist()) if seen.setdefault(value, place) != place]
    assert duplicates_within(train) == Duplicates(len(slow), tuple(slow[:3]))
    slow = [(place, seen[value]) for place, value in enumerate(held_out.tolist()) if value in seen]
    assert duplicates_of(train, held_out) == Duplicates(len(slow), tuple(slow[:3]))
