"""Copies without case and spacing, near-duplicates by MinHash: equal to comparing every pair."""

from __future__ import annotations

import random

import numpy as np
import pytest

from glassformer.data import near_duplicates
from glassformer.data.near_duplicates import (
    SIMILAR,
    Near,
    jaccard,
    near_duplicates_of,
    near_duplicates_within,
    normalised,
    symbols,
)

WORDS = [
    f"{a}{b}" for a in ("ba", "co", "du", "fe", "gi", "ho", "ka", "lu") for b in ("ral", "sten", "mick", "pol", "ver", "zan")
]


def text(rng: random.Random, words: int = 14) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def test_what_is_the_same_text() -> None:
    assert normalised("  The  Parcel\tarrived\n") == normalised("THE PARCEL ARRIVED") == "the parcel arrived"
    assert normalised("ﬁve") == normalised("ＦＩＶＥ") == "five"
    assert normalised("parcel arrived") != normalised("parcels arrived")


def test_similarity_by_hand() -> None:
    assert jaccard(symbols("abcdefgh"), symbols("abcdefgh")) == 1.0
    assert jaccard(symbols("abcdefgh"), symbols("abcdefgx")) == 3 / 5  # abcde bcdef cdefg | defgh | defgx


def test_bands_find_what_every_pair_compared_finds() -> None:
    rng = random.Random(1)
    train = [text(rng) for _ in range(300)]
    held_out = [text(rng) for _ in range(100)]
    for place in range(40):  # one word less, one more, or another one
        words = train[place].split()
        words[place % 14 : place % 14 + place % 2] = ["new"]
        held_out.append(" ".join(words).upper())
    sides = [symbols(each) for each in train], [symbols(each) for each in held_out]
    expected = {at: max(jaccard(one, other) for other in sides[0]) for at, one in enumerate(sides[1])}
    similar = {at for at, score in expected.items() if score >= SIMILAR}
    found = near_duplicates_of(*sides)
    assert len(similar) >= 20
    assert found.pairs is not None
    assert {pair[0] for pair in found.pairs} == similar
    for later, first, score in found.pairs:
        assert score == jaccard(sides[1][later], sides[0][first]) >= SIMILAR


def test_within_one_side() -> None:
    rng = random.Random(2)
    texts = [text(rng) for _ in range(50)]
    texts.append(texts[7] + " again")
    found = near_duplicates_within([symbols(each) for each in texts])
    assert [pair[:2] for pair in found.pairs or ()] == [(50, 7)]


def test_copies_are_not_near_duplicates() -> None:
    rng = random.Random(3)
    texts = [symbols(text(rng)) for _ in range(5)]
    assert near_duplicates_of(texts, texts) == near_duplicates_within([*texts, *texts]) == Near()


def test_short_texts_are_not_compared_and_too_many_are_not_either(monkeypatch: pytest.MonkeyPatch) -> None:
    short = [symbols("good film"), symbols("good films")]
    assert near_duplicates_within(short) == Near()
    assert near_duplicates_of([], [np.arange(50)]) == Near()
    monkeypatch.setattr(near_duplicates, "MOST_SYMBOLS", 10)
    assert near_duplicates_within(short) == Near(None)
