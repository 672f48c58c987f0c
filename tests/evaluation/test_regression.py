"""Numbers: figures against scikit-learn and scipy, ratings, baselines back from their arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score, mean_absolute_error, r2_score

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.regression import (
    REGRESSION_BASELINES,
    REGRESSION_METRICS,
    regression_outcomes,
    regression_tables,
)

RNG = np.random.default_rng(5)
TRUE = RNG.normal(50, 10, size=61)
PREDICTED = TRUE + RNG.normal(1, 4, size=61)


def items(numbers: np.ndarray) -> LabelledTexts:
    texts = tuple(f"a text {'high' * int(one > numbers.mean())} {n}" for n, one in enumerate(numbers))
    ids = tuple(f"t:{n}" for n in range(len(numbers)))
    return LabelledTexts("t", texts, None, numbers, ids, ("price",), scale=(float(numbers.mean()), float(numbers.std())))


def test_figures_are_those_of_scikit_learn() -> None:
    found = regression_outcomes(PREDICTED, items(TRUE))
    assert found.figures["mae"].value == pytest.approx(mean_absolute_error(TRUE, PREDICTED))
    assert found.figures["r2"].value == pytest.approx(r2_score(TRUE, PREDICTED))
    assert found.figures["spearman"].value == pytest.approx(spearmanr(TRUE, PREDICTED).statistic)
    assert found.units["scaled_mae"].value == pytest.approx(mean_absolute_error(TRUE, PREDICTED) / TRUE.std())
    assert "kappa" not in found.figures
    assert not found.notes
    low, value, high = (getattr(found.figures["r2"], key) for key in ("low", "value", "high"))
    assert low < value < high
    assert [len(rows) for _, _, rows in regression_tables(found.details)] == [5, 10]


def test_whole_numbers_of_few_values_are_ratings() -> None:
    stars = np.clip(np.round(TRUE / 10 - 2), 1, 5)
    predicted = stars + RNG.normal(0, 0.7, size=61)
    rounded = np.clip(np.round(predicted), 1, 5)
    figures = regression_outcomes(predicted, items(stars)).figures
    assert figures["kappa"].value == pytest.approx(cohen_kappa_score(stars, rounded, weights="quadratic"))
    assert figures["accuracy"].value == pytest.approx((stars == rounded).mean())


def test_one_prediction_for_all_is_reported() -> None:
    found = regression_outcomes(np.full(61, TRUE.mean()), items(TRUE))
    assert found.notes
    assert found.figures["r2"].value == pytest.approx(0)
    assert found.figures["spearman"].value is None


@pytest.mark.parametrize("name", REGRESSION_BASELINES)
def test_baselines_come_back_from_their_arrays(name: str) -> None:
    kind: Any = REGRESSION_BASELINES[name]
    fitted = kind.fit(items(TRUE))
    figures = fitted.evaluate(items(TRUE), None).figures
    assert kind.from_arrays(fitted.arrays()).evaluate(items(TRUE), None).figures == figures
    assert figures["r2"].value == pytest.approx(0) if name == "mean" else figures["r2"].value > 0.4


def test_the_page_shows_what_is_wrong() -> None:
    from glassformer.evaluation.results import Evaluation
    from glassformer.pages.page import Table
    from glassformer.web.routes.runs import evaluation_blocks

    found = Evaluation.of("validation", regression_outcomes(PREDICTED, items(TRUE)), {}, metrics=REGRESSION_METRICS)
    again = Evaluation.from_dict(found.to_file_dict())  # as the page reads it
    tables = [block for block in evaluation_blocks(again) if isinstance(block, Table)]
    assert [len(table.rows) for table in tables] == [5, 5, 10]  # the metrics, the fifths, the worst
