"""Every baseline of answers: evaluated, and the same after a round through arrays."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.evaluation.results import EvaluationTools
from glassformer.knowledge.answer_baselines import ANSWER_BASELINES, OpenBookAnswer, packed, unpacked
from glassformer.knowledge.questions import Questions

ASKED = tuple(f"Where was {name} born?" for name in ("Anna Larsen", "Olga Hansen", "Kenji Mori", "Yuki Tori"))
ITEMS = Questions("train", ASKED, ("Oslo", "Oslo", "Kobe", "London"), (1, 2, 3, 4))
TEXT = "Anna Larsen was born in Oslo.\nKenji Mori was born in Kobe.\n"


@pytest.mark.parametrize("name", ANSWER_BASELINES)
def test_each_says_the_same_after_it_was_kept(name):
    kind = ANSWER_BASELINES[name]
    made = OpenBookAnswer.of_text(TEXT) if name == "open book" else kind.fit(ITEMS.questions, ITEMS.answers)
    tools = EvaluationTools(tokenizer=TOKENIZERS.parse("byte").train(lambda: [TEXT]), context=8)
    again = kind.from_arrays({key: np.array(array) for key, array in made.arrays().items()})
    first, second = made.evaluate(ITEMS, tools), again.evaluate(ITEMS, tools)
    assert first.figures == second.figures
    expected = {"most common answer": 0.5, "London": 0.25, "nearest name": 1.0, "bag of letters": 1.0, "open book": 0.5}
    assert first.figures["exact_match"].value == expected[name]
    assert made.trivial == (name != "open book")


def test_texts_come_back():
    assert unpacked(packed(["a", "", "żó"])) == ["a", "", "żó"]
