"""The baselines of a translation, by hand, and through the arrays that a run stores."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data.pairs.text_pairs import Pairs
from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.evaluation.results import EvaluationTools
from glassformer.evaluation.translation_baselines import TRANSLATION_BASELINES, fit_translation_baselines

TRAIN = Pairs(
    "train",
    ("ein Hund läuft im Park", "zwei Katzen schlafen hier", "ein Mann fährt ein Rad"),
    ("a dog runs", "two cats sleep", "a man rides"),
    ("t:1", "t:2", "t:3"),
)
TEST = ("ein großer Hund läuft", "drei Katzen schlafen", "ein Mann fährt")
EXPECTED = {
    "copy": list(TEST),
    "frequent": ["a cats dog"] * 3,
    "nearest": ["a dog runs", "two cats sleep", "a man rides"],
}


@pytest.mark.parametrize("name", TRANSLATION_BASELINES)
def test_what_it_writes_before_and_after_it_is_stored(name: str) -> None:
    fitted = fit_translation_baselines(TRAIN)[name]
    stored = TRANSLATION_BASELINES[name].from_arrays({key: np.array(value) for key, value in fitted.arrays().items()})
    for one in (fitted, stored):
        assert one.translate(TEST) == EXPECTED[name]  # type: ignore[attr-defined]
    items = Pairs("t", TEST, TEST, ("t:1", "t:2", "t:3"))
    exact = fitted.evaluate(items, EvaluationTools(ByteTokenizer(), 8)).figures["exact_match"].value
    assert exact == (1.0 if name == "copy" else 0.0)


def test_short_sources_are_compared_by_their_letters() -> None:
    train = Pairs("train", ("4217", "88", "9001"), ("a", "b", "c"), ("t:1", "t:2", "t:3"))
    assert fit_translation_baselines(train)["nearest"].translate(["4218", "900"]) == ["a", "c"]  # type: ignore[attr-defined]
