"""A number for a whole text (or a pair): a price, a score, a rating from 1 to 5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.labels.label_batches import IGNORED
from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.regression import (
    REGRESSION_BASELINES,
    REGRESSION_METRICS,
    regression_outcomes,
    regression_tables,
)
from glassformer.evaluation.results import Baseline, Outcomes
from glassformer.figures.predictions import true_and_predicted
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.metrics import Metric
from glassformer.model.network import Network
from glassformer.objectives.base import OBJECTIVES
from glassformer.objectives.labels import TextObjective, label_scores


@OBJECTIVES.variant("regression")
@final
class RegressionConfig(TextObjective):
    """Each text gets a number, by the squared error.

    The network predicts how many standard deviations it is from the mean of the training numbers; every figure and every
    prediction is in the numbers' own units.
    """

    reads: ClassVar[tuple[str, ...]] = ("numbers",)
    judged_on: ClassVar[str] = "numbers"
    ask_reads: ClassVar[str] = "numbers"
    metrics: ClassVar[tuple[Metric, ...]] = REGRESSION_METRICS
    baselines: ClassVar[Mapping[str, type[Baseline]]] = REGRESSION_BASELINES

    def loss(self, network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor:
        if smoothing:
            raise ConfigError(
                f"training.smoothing={smoothing} is for labels, and objective=regression has numbers; drop it.",
                reason="smoothing-of-numbers",
            )
        scores_B1, targets_B1 = label_scores(network, batch, dropout_seed=dropout_seed).float(), batch["labels"]
        return ((scores_B1 - targets_B1) ** 2 * (targets_B1 != IGNORED)).sum()

    def outcomes(self, found_NC: np.ndarray, items: LabelledTexts) -> Outcomes:
        return regression_outcomes(unscaled(found_NC, items), items)

    def rows_of(self, found_NC: np.ndarray, items: LabelledTexts) -> list[dict[str, Any]]:
        return [{"predicted": float(value)} for value in unscaled(found_NC, items)]

    def in_words(self, row: Mapping[str, Any]) -> str:
        return f"{row['predicted']:.6g} ("

    def tables(self, details: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
        return regression_tables(details)

    def pictures(self, details: Mapping[str, Any]) -> list[tuple[Any, str]]:
        if "scatter" not in details:
            return []
        return [(true_and_predicted(details["scatter"]), "Each text: its number and the prediction; on the line they agree.")]


def unscaled(found_N1: np.ndarray, items: LabelledTexts) -> np.ndarray:
    """float64 [N]: scores as numbers."""
    assert items.scale is not None
    return np.asarray(found_N1[:, 0] * items.scale[1] + items.scale[0])
