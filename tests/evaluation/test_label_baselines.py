"""Baselines of a classifier: by hand, kept as arrays, and on the real sets the published figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.data.config import DataConfig
from glassformer.data.labels.labelled_texts import LabelledTexts, Labels
from glassformer.evaluation import label_baselines
from glassformer.evaluation.label_baselines import LABEL_BASELINES, BagOfWords, Majority, Prior, WordPairs

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
    for name, kind in LABEL_BASELINES.items():
        fitted = kind.fit(texts())
        again = LABEL_BASELINES[name].from_arrays(fitted.arrays())
        np.testing.assert_array_equal(fitted.log_probabilities(texts()), again.log_probabilities(texts()))


def test_the_second_text_of_a_pair_has_its_own_vocabulary_and_weights() -> None:
    pairs = ("no cat", "no dog", "no cat", "no dog")
    items = LabelledTexts("t", ("cat", "cat", "dog", "dog"), pairs, np.array([0, 1, 0, 1]), pairs, ("a", "b"))
    for kind in (BagOfWords, WordPairs):
        fitted = kind.fit(items)
        assert fitted.log_probabilities(items).argmax(axis=1).tolist() == [0, 1, 0, 1]
        again = kind.from_arrays(fitted.arrays())
        assert [list(words) for words in again.vocabularies] == fitted.vocabularies
        np.testing.assert_array_equal(again.log_probabilities(items), fitted.log_probabilities(items))


def test_a_large_table_is_fitted_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text has a word of its own, so that the vocabulary tells how many were read."""
    words = tuple(f"word{number}" for number in range(60))
    items = LabelledTexts("t", words, None, np.arange(60) % 2, words, ("a", "b"))
    assert len(BagOfWords.fit(items).vocabularies[0]) == 60
    monkeypatch.setattr(label_baselines, "MOST_TEXTS", 20)
    assert len(BagOfWords.fit(items).vocabularies[0]) == 20


def test_rows_of_length_one_are_weighted_by_rarity() -> None:
    """By hand: idf = ln((1 + texts) / (1 + texts with the word)) + 1."""
    fitted = WordPairs.fit(texts())
    idf = dict(zip(fitted.vocabularies[0], fitted.idf_F))
    assert idf["good"] == pytest.approx(np.log(7 / 5) + 1)
    assert idf["good film"] == pytest.approx(np.log(7 / 2) + 1)


def test_texts_without_a_word_and_absent_classes() -> None:
    marks = LabelledTexts("t", ("x", ".", "?"), None, np.array([0, 2, 2]), ("1", "2", "3"), ("a", "b", "c"))
    for kind in (BagOfWords, WordPairs):
        fitted = kind.fit(marks)
        found = kind.from_arrays(fitted.arrays()).log_probabilities(marks)
        assert found.argmax(axis=1).tolist() == [2, 2, 2]
        np.testing.assert_allclose(np.exp(found[0]), [1 / 3, 0.0, 2 / 3], atol=1e-3)
        assert np.isfinite(found).all()


def test_the_regression_is_at_its_minimum() -> None:
    """No weight moved by a little lowers the penalised loss; fitting again gives the same bits."""
    items = texts()
    fitted = BagOfWords.fit(items)
    assert np.array_equal(fitted.weights_FC, BagOfWords.fit(items).weights_FC)

    def loss(weights: np.ndarray) -> float:
        moved = BagOfWords(fitted.vocabularies, None, weights, fitted.bias_C).log_probabilities(items)
        return float(-moved[np.arange(len(items)), items.labels].sum() + (weights**2).sum() / 20)

    least = loss(fitted.weights_FC)
    for place in range(len(fitted.weights_FC)):
        for step in (-0.02, 0.02):
            moved = fitted.weights_FC.copy()
            moved[place, 1] += step
            assert loss(moved) > least


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
