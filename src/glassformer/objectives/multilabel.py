"""Several labels at once: for each label of a whole text (or a pair) whether it applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.labels.label_batches import IGNORED
from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.multilabel import (
    MULTILABEL_BASELINES,
    MULTILABEL_METRICS,
    multilabel_outcomes,
    multilabel_tables,
)
from glassformer.evaluation.results import Baseline, Outcomes
from glassformer.foundation.metrics import Metric
from glassformer.model.network import Network
from glassformer.objectives.base import OBJECTIVES
from glassformer.objectives.labels import TextObjective, label_scores


@OBJECTIVES.variant("multilabel")
@final
class MultilabelConfig(TextObjective):
    """Each text gets any number of the training labels: a yes or no for each, by binary cross-entropy."""

    reads: ClassVar[tuple[str, ...]] = ("multilabel",)
    judged_on: ClassVar[str] = "multilabel"
    ask_reads: ClassVar[str] = "multilabel"
    metrics: ClassVar[tuple[Metric, ...]] = MULTILABEL_METRICS
    baselines: ClassVar[Mapping[str, type[Baseline]]] = MULTILABEL_BASELINES

    def loss(self, network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor:
        scores_BC, labels_BC = label_scores(network, batch, dropout_seed=dropout_seed).float(), batch["labels"]
        known_BC = labels_BC != IGNORED
        targets_BC = (labels_BC * known_BC) * (1 - smoothing) + smoothing / 2
        losses_BC = F.binary_cross_entropy_with_logits(scores_BC, targets_BC, reduction="none") * known_BC
        return (losses_BC * batch["weights"] if "weights" in batch.tensors else losses_BC).sum()

    def outcomes(self, found_NC: np.ndarray, items: LabelledTexts) -> Outcomes:
        return multilabel_outcomes(found_NC, items)

    def rows_of(self, found_NC: np.ndarray, items: LabelledTexts) -> list[dict[str, Any]]:
        """The labels of at least one half, and the probability of every label."""
        rows = []
        for row_C in 1 / (1 + np.exp(-found_NC)):
            given = ", ".join(name for name, p in zip(items.label_names, row_C) if p >= 0.5)
            rows.append({"predicted": given, **{f"p({name})": float(p) for name, p in zip(items.label_names, row_C)}})
        return rows

    def tables(self, details: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
        return multilabel_tables(details)
