"""Guessers: by hand, and each where it must be good."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.knowledge.guessing import BagOfLetters, Constant, NearestName, OpenBook, letters

ASKED = [
    "Where was Anna Larsen born?",
    "Where was Olga Hansen born?",
    "Where was Kenji Mori born?",
    "Where was Yuki Mori born?",
]
TOLD = ["Oslo", "Oslo", "Kobe", "Nara"]


def test_the_most_common_answer_and_a_constant():
    assert Constant.most_common(TOLD).answers(["a", "b"]) == ["Oslo", "Oslo"]
    assert Constant.most_common(["b", "a"]).answer == "a"
    assert Constant("London").answers(["x"]) == ["London"]


def test_the_nearest_name_and_the_letters():
    nearest = NearestName.fit(ASKED, TOLD)
    assert nearest.answers(["Where was Kenzo Mori born?", "Where was Anna Larssen born?"]) == ["Kobe", "Oslo"]
    assert BagOfLetters.fit(ASKED, TOLD).answers(["Where was Nils Jansen born?"]) == ["Oslo"]


def test_letters_count_letters_pairs_and_triples_with_ends():
    assert letters("ab").sum() == 4 + 3 + 2  # ^ab$
    np.testing.assert_array_equal(letters("Ab"), letters("aB"))


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("Ann Lee. Ann Lee is a poet who was born in New York and lives in Rome .", "New York"),
        ("Ann Lee. Lee was born on 3 April 1920 in Philadelphia, Pennsylvania .", "Philadelphia"),
        ("Ann Lee (1821, Oslo) was a baker.", "Oslo"),
        ("The birth place of Ann Lee is Oslo.", "Oslo"),
        ("Oslo is where Ann Lee was born.", "Oslo"),
        ("It was in Oslo that Ann Lee was born in 1900.", "Oslo"),
        ("Bob Day was born in Rome.", ""),
    ],
)
def test_the_open_book_finds_what_a_line_says(line, place):
    assert OpenBook(line).answers(["Where was Ann Lee born?"]) == [place]
