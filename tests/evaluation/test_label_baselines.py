"""Baselines of a classifier: by hand, kept as arrays, and on the real sets the published figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.data.config import DataConfig
from glassformer.data.labels.labelled_texts import LabelledTexts, Labels
from glassformer.evaluation.label_baselines import LABEL_BASELINES, BagOfWords, Majority, Prior, WordPairs, fit_label_baselines

TOOLS: Any = None  # none of them needs any


def texts() -> LabelledTexts:
    given = ("good good film", "bad film", "good one", "bad bad", "good", "good play")
    return LabelledTexts("t", given, None, np.array([1, 0, 1, 0, 1, 1]), given, ("bad", "good"))


def test_majority_and_prior_by_hand() -> None:
    majority, prior = Majority.fit(texts()), Prior.fit(texts())
    assert majority.evaluate(texts(), TOOLS).figures["accuracy"].value == pytest.approx(4 / 6)
    chance = prior.evaluate(texts(), TOOLS).figures["accuracy"].value
    assert chance == pytest.approx((2 * 3 / 8 + 4 * 5 / 8) / 6)  # one more of each class than there are


def test_every_baseline_comes_back_from_its_arrays() -> None:
    for name, fitted in fit_label_baselines(texts()).items():
        again = LABEL_BASELINES[name].from_arrays(fitted.arrays())
        np.testing.assert_array_equal(fitted.log_probabilities(texts()), again.log_probabilities(texts()))


def test_a_bag_learns_the_words() -> None:
    assert BagOfWords.fit(texts()).evaluate(texts(), TOOLS).figures["accuracy"].value == 1.0
    assert not BagOfWords.trivial
    assert Majority.trivial


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "kind", "published"), [("speeches", BagOfWords, 0.893), ("speeches", WordPairs, 0.912), ("sst2", WordPairs, 0.799)]
)
def test_the_published_figures(name: str, kind: Any, published: float, real_data: Path) -> None:
    labels = Labels(DataConfig.parse({"set": name, "split": {"validation": 0.0}}))
    found = kind.fit(labels.split("train")).evaluate(labels.split("test:dev"), TOOLS).figures["accuracy"].value
    assert found == pytest.approx(published, abs=0.003)
