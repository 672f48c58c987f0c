"""Figures of a classifier by hand: accuracy, macro F1, confusion, unseen texts, and the words for a collapse."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.label_metrics import (
    LABEL_METRICS,
    collapsed_since,
    collapsed_to,
    confusion,
    f1,
    label_outcomes,
    label_tables,
    macro_f1,
)
from glassformer.evaluation.results import Evaluation
from glassformer.foundation.errors import DataError

NAMES = ("no", "so", "yes")


def items(labels: list[int], seen: list[bool] | None = None) -> LabelledTexts:
    texts = tuple(f"text {n}" for n in range(len(labels)))
    flags = None if seen is None else np.array(seen)
    return LabelledTexts("t", texts, None, np.array(labels), texts, NAMES, flags)


def logs(predicted: list[int], sure: float = 0.8) -> np.ndarray:
    table = np.full((len(predicted), 3), (1 - sure) / 2)
    table[np.arange(len(predicted)), predicted] = sure
    return np.log(table)


def test_by_hand() -> None:
    outcomes = label_outcomes(logs([0, 1, 1, 2]), items([0, 1, 2, 2]))
    assert outcomes.figures["accuracy"].value == 0.75
    assert outcomes.figures["loss"].value == pytest.approx((3 * -np.log(0.8) - np.log(0.1)) / 4)
    assert outcomes.figures["macro_f1"].value == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
    assert outcomes.details["confusion"]["rows_true_columns_predicted"] == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert outcomes.units["accuracy"].sums.tolist() == [1, 1, 0, 1]
    assert outcomes.figures["calibration_error"].value == pytest.approx(0.05)
    json.dumps(outcomes.details)


def test_macro_f1_is_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    true, predicted = rng.integers(0, 3, 50), rng.integers(0, 3, 50)
    assert macro_f1(confusion(true, predicted, 3)) == pytest.approx(metrics.f1_score(true, predicted, average="macro"))
    assert macro_f1(confusion(true, predicted, 5)) == pytest.approx(metrics.f1_score(true, predicted, average="macro"))


def test_macro_f1_leaves_out_a_class_that_is_nowhere() -> None:
    assert macro_f1(np.array([[3, 0, 0], [0, 0, 0], [0, 0, 2]])) == 1.0


def test_unseen_texts_have_a_figure_of_their_own() -> None:
    outcomes = label_outcomes(logs([0, 1, 1, 2]), items([0, 1, 2, 1], [True, True, False, False]))
    assert outcomes.figures["accuracy_unseen"].value == 0.0
    assert "2 of the 4 texts occur in the training texts" in " ".join(outcomes.notes)
    assert "accuracy_unseen" not in label_outcomes(logs([0, 1]), items([0, 1], [False, False])).figures


def test_one_class_for_all_is_said() -> None:
    assert "All 3 predictions are so" in label_outcomes(logs([1, 1, 1]), items([0, 1, 2])).notes[0]
    assert not label_outcomes(logs([1, 1, 0]), items([0, 1, 2])).notes


def test_collapsed_since_which_epoch() -> None:
    def record(step: int, collapsed: float | None) -> dict[str, float]:
        extra = {} if collapsed is None else {"validation_collapsed_to": collapsed}
        return {"step": step, "validation_accuracy": 0.5, **extra}

    records = [record(10, 1.0), {"step": 11, "loss": 1.0}, record(20, None), record(30, 1.0), record(40, 1.0)]
    assert collapsed_since(records, 10.0) == (
        "All predictions are one class (number 1) since epoch 3: collapsed. If it stays so, try a smaller training.lr or a "
        "longer warm-up."
    )
    assert "since epoch 5: " in str(collapsed_since([*records, record(50, 0.0)], 10.0))  # another class: counted anew
    assert collapsed_since(records[:1], 11.0) is None  # in the first epoch most begin that way
    assert collapsed_since(records[:3], 10.0) is None
    assert collapsed_since([], 10.0) is None
    assert collapsed_to(np.array([1, 1]), np.array([1, 0])) == {"collapsed_to": 1.0}
    assert collapsed_to(np.array([1, 0]), np.array([1, 0])) == {}
    assert collapsed_to(np.array([1, 1]), np.array([1, 1])) == {}  # every text is of that class: nothing can be told


def test_texts_without_labels_cannot_be_measured() -> None:
    with refused(DataError, "no-labels"):
        label_outcomes(logs([0]), items([-1]))


def test_the_majority_class_is_not_hidden_behind_a_better_baseline() -> None:
    """A collapsed classifier is told that it equals the majority class, also where a bag of words is far better."""
    asked = items([0, 1, 1, 2] * 5)
    model, bag = label_outcomes(logs([1, 1, 1, 1] * 5), asked), label_outcomes(logs([0, 1, 1, 2] * 5), asked)
    beside = {"majority": model, "bag of words": bag}
    notes = Evaluation.of("validation", model, beside, metrics=LABEL_METRICS, trivial=["majority"]).notes
    assert notes[0].startswith("The model is not better than the majority baseline")
    assert notes[1].startswith("The model is not better than the bag of words baseline")


class TestWhatIsWrong:
    """Each class, the pairs that are confused, and the worst errors, by hand."""

    def outcomes(self) -> Any:
        names = ("cat", "dog", "owl")
        labels = np.array([0, 0, 0, 1, 1, 2])
        chances = np.array(
            [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.85, 0.05], [0.3, 0.6, 0.1], [0.9, 0.05, 0.05], [0.1, 0.2, 0.7]]
        )
        ids = tuple(f"t:{at}" for at in range(6))
        items = LabelledTexts("t", tuple(f"text {at}" for at in range(6)), None, labels, ids, names)
        return label_outcomes(np.log(chances), items)

    def test_f1_and_its_interval(self) -> None:
        cat, dog, owl = self.outcomes().details["by_label"]
        assert cat["f1"]["value"] == pytest.approx(2 * 1 / (3 + 2))
        assert dog["f1"]["value"] == pytest.approx(2 * 1 / (2 + 3))
        assert owl["f1"]["value"] == 1.0
        for row in (cat, dog, owl):
            assert row["f1"]["low"] <= row["f1"]["value"] <= row["f1"]["high"]
        assert f1(0, 0, 0).value is None

    def test_the_worst_errors_come_first_with_both_probabilities(self) -> None:
        errors = self.outcomes().details["worst_errors"]
        assert [(one["id"], one["label"], one["predicted"]) for one in errors] == [
            ("t:4", "dog", "cat"),
            ("t:2", "cat", "dog"),
            ("t:1", "cat", "dog"),
        ]
        assert errors[0]["confidence"] == pytest.approx(0.9)
        assert errors[0]["probability_of_label"] == pytest.approx(0.05)

    def test_the_tables(self) -> None:
        by_class, matrix, pairs, errors = label_tables(self.outcomes().details)
        assert [row[:2] for row in by_class[2]] == [["cat", 3], ["dog", 2], ["owl", 1]]
        assert matrix[2] == [["cat", 1, 2, 0], ["dog", 1, 1, 0], ["owl", 0, 0, 1]]
        assert pairs[2] == [["cat", "dog", 2], ["dog", "cat", 1]]
        assert len(errors[2]) == 3
        assert label_tables({}) == []
