from dataclasses import replace
from typing import ClassVar

import numpy as np

from glassformer.evaluation.interval_estimates import ratio
from glassformer.evaluation.results import Units
from glassformer.evaluation.token_losses import token_losses
from glassformer.foundation.metrics import Metric
from glassformer.objectives.base import OBJECTIVES
from glassformer.objectives.next_token import NextTokenConfig


@OBJECTIVES.variant("next-token-and-capitals")
class CapitalsConfig(NextTokenConfig):
    """The next token, judged also by the loss on capital letters alone (a metric of one's own)."""

    metrics: ClassVar = (*NextTokenConfig.metrics, Metric("capital_loss", "nats per capital", "capital letters alone"))

    def evaluate(self, network, items, tools):
        outcomes = super().evaluate(network, items, tools)
        nats = token_losses(network, items.tokens, context=tools.context, device=tools.device)
        capital = np.array([tools.tokenizer.token_text(int(one)).isupper() for one in items.tokens[1:]], dtype=float)
        document = np.searchsorted(items.starts, np.arange(1, len(items.tokens)), side="right") - 1
        sums, weights = (np.bincount(document, what, minlength=len(items.starts)) for what in (nats * capital, capital))
        units = {**outcomes.units, "capital_loss": Units(sums, weights)}
        return replace(outcomes, units=units, figures={**outcomes.figures, "capital_loss": ratio(sums, weights)})
