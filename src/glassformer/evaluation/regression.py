"""Numbers to predict: predictions -> MAE, R2, Spearman, for ratings also kappa; and the baselines. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, final

import numpy as np

from glassformer.data.labels.labelled_texts import MOST_RATINGS, LabelledTexts
from glassformer.evaluation.interval_estimates import mean, ratio, wilson
from glassformer.evaluation.label_baselines import WordPairs
from glassformer.evaluation.label_metrics import ERRORS, EXCERPT, require_labels
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes, Units
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric

REGRESSION_METRICS = (
    Metric("scaled_mae", "standard deviations", "mean absolute error over the training numbers' deviation", margin=0.01),
    Metric("mae", "of the number", "mean absolute error, in the units of the numbers"),
    Metric("loss", "squared deviations", "squared error over the training numbers' variance", margin=0.01),
    Metric("r2", "of the variance", "explained share of the variance", lower_is_better=False, judged=False),
    Metric("spearman", "rank correlation", "rank correlation", lower_is_better=False, judged=False),
    Metric("accuracy", "of all texts", "ratings: right after rounding", lower_is_better=False, judged=False),
    Metric("kappa", "above chance", "ratings: quadratic weighted kappa", lower_is_better=False, judged=False),
)
"""Every figure of predicted numbers, in the order of the tables."""
POINTS, PARTS = 300, 5
"""Points of the stored scatter plot, and parts of the range in the table."""
SHRINKAGE = 1.0
"""Ridge regression's penalty of the bag of words: scikit-learn's default."""


def regression_outcomes(predicted_N: np.ndarray, items: LabelledTexts) -> Outcomes:
    """All metrics of these predictions."""
    require_labels(items)
    assert items.scale is not None
    true_N, ones_N, spread = items.labels, np.ones(len(items)), items.scale[1]
    error_N = np.abs(predicted_N - true_N)
    figures = {
        "scaled_mae": mean(error_N / spread),
        "mae": mean(error_N),
        "loss": mean((error_N / spread) ** 2),
        "r2": _r2(error_N, true_N),
        "spearman": _spearman(predicted_N, true_N),
        **_of_ratings(predicted_N, true_N),
    }
    units = {name: Units(values, ones_N) for name, values in (("scaled_mae", error_N / spread), ("mae", error_N))}
    units["loss"] = Units((error_N / spread) ** 2, ones_N)
    shown = np.linspace(0, len(items) - 1, min(POINTS, len(items))).astype(int)
    order = np.argsort(true_N, kind="stable")
    details = {
        "scatter": [[float(true_N[at]), float(predicted_N[at])] for at in shown],
        "by_range": [
            {
                "low": float(true_N[part].min()),
                "high": float(true_N[part].max()),
                "texts": len(part),
                "bias": mean((predicted_N - true_N)[part]).to_dict(),
                "mae": mean(error_N[part]).to_dict(),
            }
            for part in np.array_split(order, PARTS)
            if len(part)
        ],
        "worst_errors": [
            {
                "id": items.ids[at],
                "text": items.text_of(at)[:EXCERPT],
                "value": float(true_N[at]),
                "predicted": float(predicted_N[at]),
            }
            for at in np.argsort(-error_N, kind="stable")[:ERRORS].tolist()
        ],
    }
    flat = len(items) > 1 and float(predicted_N.std()) < 0.01 * float(true_N.std())
    note = f"All predictions are nearly {predicted_N.mean():.6g}, whatever the text: nothing was learned."
    notes = (note,) if flat else ()
    return Outcomes(units, figures, "text", items.balance(), items.ids, items.fingerprint, details, notes, predicted_N)


def _r2(error_N: np.ndarray, true_N: np.ndarray) -> Estimate:
    """One minus the squared error over that of the mean of these texts."""
    if len(true_N) < 2 or float(np.ptp(true_N)) == 0:
        return Estimate(None, n=len(true_N), reason="all numbers are the same")
    left = ratio(error_N**2, (true_N - true_N.mean()) ** 2)
    assert left.value is not None
    assert left.low is not None
    assert left.high is not None
    return Estimate(1 - left.value, 1 - left.high, 1 - left.low, left.n)


def _spearman(predicted_N: np.ndarray, true_N: np.ndarray) -> Estimate:
    """With Fisher's interval (Bonett and Wright 2000)."""
    from scipy.stats import spearmanr

    count = len(true_N)
    if count < 4 or min(float(np.ptp(predicted_N)), float(np.ptp(true_N))) == 0:
        return Estimate(None, n=count, reason="ranks need four different texts and predictions that differ")
    value = float(spearmanr(predicted_N, true_N).statistic)
    half = 1.96 * np.sqrt((1 + value**2 / 2) / (count - 3))
    inner = np.arctanh(np.clip(value, -1 + 1e-12, 1 - 1e-12))
    return Estimate(value, float(np.tanh(inner - half)), float(np.tanh(inner + half)), count)


def _of_ratings(predicted_N: np.ndarray, true_N: np.ndarray) -> dict[str, Estimate]:
    """Whole numbers of few values are ratings: how many are right after rounding, and the quadratic weighted kappa."""
    levels = np.unique(true_N)
    if len(levels) > MOST_RATINGS or len(levels) < 3 or (levels != np.round(levels)).any():
        return {}
    rounded_N = np.clip(np.round(predicted_N), levels.min(), levels.max())
    apart = float(((rounded_N - true_N) ** 2).mean())
    by_chance = float(((rounded_N[:, None] - levels[None]) ** 2 @ np.array([(true_N == one).mean() for one in levels])).mean())
    kappa = Estimate(1 - apart / by_chance, n=len(true_N)) if by_chance else Estimate(None, reason="no two ratings differ")
    return {"accuracy": wilson(int((rounded_N == true_N).sum()), len(true_N)), "kappa": kappa}


def regression_tables(details: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
    """(heading, header, rows): the error from the lowest to the highest numbers, and the worst predictions."""
    if "by_range" not in details:
        return []
    parts = [
        [
            f"{row['low']:.6g} to {row['high']:.6g}",
            row["texts"],
            Estimate.from_dict(row["bias"]),
            Estimate.from_dict(row["mae"]),
        ]
        for row in details["by_range"]
    ]
    errors = [[row["id"], f"{row['value']:.6g}", f"{row['predicted']:.6g}", row["text"]] for row in details["worst_errors"]]
    return [
        ("By size of the true number", ["true", "texts", "too high by", "MAE"], parts),
        ("Worst predictions", ["text", "true", "predicted", "it says"], errors),
    ]


@final
class Mean(Baseline):
    """Always the mean of the training numbers."""

    def evaluate(self, items: LabelledTexts, tools: EvaluationTools) -> Outcomes:
        assert items.scale is not None
        return regression_outcomes(np.full(len(items), items.scale[0]), items)

    @classmethod
    def fit(cls, items: LabelledTexts) -> Self:
        """The items carry the mean."""
        return cls()


@final
class RidgeWordPairs(WordPairs):
    """tf-idf of words and of pairs of neighbouring words, with ridge regression."""

    @classmethod
    def regression(cls, rows_NF: Any, items: LabelledTexts) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.linear_model import Ridge

        found = Ridge(alpha=SHRINKAGE, solver="sparse_cg", tol=1e-6).fit(rows_NF, items.labels)
        return found.coef_.reshape(-1, 1), np.array([found.intercept_])

    def evaluate(self, items: LabelledTexts, tools: EvaluationTools) -> Outcomes:
        return regression_outcomes(self.scores(items)[:, 0], items)


REGRESSION_BASELINES: Mapping[str, type[Any]] = {"mean": Mean, "word pairs": RidgeWordPairs}
"""Weakest first."""
