"""Every baseline of answers: evaluated, and the same after a round through arrays."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.evaluation.results import EvaluationTools
from glassformer.knowledge.answer_baselines import (
    ANSWER_BASELINES,
    BagOfLettersAnswer,
    LondonAnswer,
    MostCommonAnswer,
    NearestNameAnswer,
    OpenBookAnswer,
    letters,
)
from glassformer.knowledge.questions import Questions
from glassformer.runs.baselines_file import texts_of_array, texts_to_array

ASKED = tuple(f"Where was {name} born?" for name in ("Anna Larsen", "Olga Hansen", "Kenji Mori", "Yuki Tori"))
ITEMS = Questions("train", ASKED, ("Oslo", "Oslo", "Kobe", "London"), (1, 2, 3, 4))
TEXT = "Anna Larsen was born in Oslo.\nKenji Mori was born in Kobe.\n"


@pytest.mark.parametrize("name", ANSWER_BASELINES)
def test_each_says_the_same_after_it_was_kept(name):
    kind = ANSWER_BASELINES[name]
    made = kind.fit(ITEMS.questions, ITEMS.answers, TEXT)
    tools = EvaluationTools(tokenizer=TOKENIZERS.parse("byte").train(lambda: [TEXT]), context=8)
    again = kind.from_arrays({key: np.array(array) for key, array in made.arrays().items()})
    first, second = made.evaluate(ITEMS, tools), again.evaluate(ITEMS, tools)
    assert first.figures == second.figures
    expected = {"most common answer": 0.5, "London": 0.25, "nearest name": 1.0, "bag of letters": 1.0, "open book": 0.5}
    assert first.figures["exact_match"].value == expected[name]
    assert made.trivial == (name != "open book")


def test_texts_come_back():
    assert texts_of_array(texts_to_array(["a", "", "żó"])) == ["a", "", "żó"]


PEOPLE = [
    "Where was Anna Larsen born?",
    "Where was Olga Hansen born?",
    "Where was Kenji Mori born?",
    "Where was Yuki Mori born?",
]
PLACES = ["Oslo", "Oslo", "Kobe", "Nara"]


def test_the_most_common_answer_and_a_constant():
    assert MostCommonAnswer.fit(PEOPLE, PLACES, None).answers(["a", "b"]) == ["Oslo", "Oslo"]
    assert MostCommonAnswer.fit(PEOPLE, ["b", "a"], None).answer == "a"
    assert LondonAnswer.fit(PEOPLE, PLACES, None).answers(["x"]) == ["London"]


def test_the_nearest_name_and_the_letters():
    nearest = NearestNameAnswer.fit(PEOPLE, PLACES, None)
    assert nearest.answers(["Where was Kenzo Mori born?", "Where was Anna Larssen born?"]) == ["Kobe", "Oslo"]
    assert BagOfLettersAnswer.fit(PEOPLE, PLACES, None).answers(["Where was Nils Jansen born?"]) == ["Oslo"]


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
    assert OpenBookAnswer(line).answers(["Where was Ann Lee born?"]) == [place]


def test_a_text_too_long_to_be_searched_has_no_open_book():
    assert OpenBookAnswer.fit(PEOPLE, PLACES, None) is None
