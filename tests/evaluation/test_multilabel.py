"""Several labels at once: figures against scikit-learn, thresholds by hand, baselines back from their arrays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.multilabel import (
    MULTILABEL_BASELINES,
    best_thresholds,
    cross_fitted,
    multilabel_outcomes,
    multilabel_tables,
)

RNG = np.random.default_rng(3)
LABELS = (RNG.random((61, 3)) < (0.5, 0.3, 0.1)).astype(np.int64)
SCORES = 3 * (LABELS - 0.6) + RNG.normal(size=LABELS.shape)


def items(labels: np.ndarray = LABELS) -> LabelledTexts:
    words = ("red", "green", "blue")
    texts = tuple(f"text {n % 7} " + " ".join(w for w, one in zip(words, row) if one > 0) for n, row in enumerate(labels))
    return LabelledTexts("t", texts, None, labels, tuple(f"t:{n}" for n in range(len(labels))), words)


def test_figures_are_those_of_scikit_learn() -> None:
    found, given = multilabel_outcomes(SCORES, items()), SCORES > 0
    assert found.figures["micro_f1"].value == pytest.approx(f1_score(LABELS, given, average="micro"))
    assert found.figures["macro_f1"].value == pytest.approx(f1_score(LABELS, given, average="macro"))
    assert found.figures["exact_match"].value == pytest.approx((given == LABELS).all(axis=1).mean())
    assert found.units["label_accuracy"].value == pytest.approx((given == LABELS).mean())
    one = np.exp(-found.units["loss"].sums[0])  # the probability of a text's labels is a product
    p = 1 / (1 + np.exp(-SCORES[0]))
    assert one == pytest.approx(np.where(LABELS[0], p, 1 - p).prod())
    (_, _, rows), *_ = multilabel_tables(found.details)
    assert [row[:2] for row in rows] == [[name, count] for name, count in zip(("red", "green", "blue"), LABELS.sum(axis=0))]


def test_a_threshold_is_the_one_of_the_best_f1() -> None:
    scores, true = np.array([[3.0], [2.0], [2.0], [1.0], [0.0]]), np.array([[1], [1], [0], [1], [0]]) > 0
    (least,) = best_thresholds(scores, true)  # giving the first four: 2 * 3 / (4 + 3); the two equal ones cannot be parted
    assert 0.0 < least < 1.0
    tried = {float(t): f1_score(LABELS[:, 1], SCORES[:, 1] > t) for t in SCORES[:, 1]}
    assert f1_score(LABELS[:, 1], SCORES[:, 1] > best_thresholds(SCORES, LABELS > 0)[1]) == pytest.approx(max(tried.values()))


def test_no_text_chooses_the_threshold_it_is_measured_with() -> None:
    changed = LABELS.copy()
    changed[0] = 1 - changed[0]
    before, after = cross_fitted(SCORES, LABELS > 0), cross_fitted(SCORES, changed > 0)
    np.testing.assert_array_equal(before[0::2], after[0::2])  # its own half


@pytest.mark.parametrize("name", MULTILABEL_BASELINES)
def test_baselines_come_back_from_their_arrays(name: str) -> None:
    kind = MULTILABEL_BASELINES[name]
    fitted = kind.fit(items())
    figures = fitted.evaluate(items(), None).figures
    assert kind.from_arrays(fitted.arrays()).evaluate(items(), None).figures == figures
    assert (figures["micro_f1"].value or 0) > 0.9 if name == "word pairs" else figures["exact_match"].value < 0.9
