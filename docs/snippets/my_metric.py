# docs/snippets/my_metric.py
from dataclasses import replace

import numpy as np

from glassformer.evaluation.interval_estimates import ratio
from glassformer.evaluation.results import Units
from glassformer.evaluation.token_losses import token_losses
from glassformer.foundation.metrics import Metric
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig
from glassformer.objectives.next_token import NextTokenConfig

PLAIN = NextTokenConfig()


@OBJECTIVES.variant("next-token-and-capitals")
class CapitalsConfig(ObjectiveConfig):
    """The next token, judged also by the loss on capital letters alone (a metric of one's own)."""

    laws, baselines = PLAIN.laws, PLAIN.baselines
    metrics = (*PLAIN.metrics, Metric("capital_loss", "nats per capital", "capital letters alone"))

    def batches(self, data, **sizes):
        return PLAIN.batches(data, **sizes)

    def fit_baselines(self, data):
        return PLAIN.fit_baselines(data)

    def evaluate(self, network, items, tools):
        outcomes = PLAIN.evaluate(network, items, tools)
        nats = token_losses(network, items.tokens, context=tools.context, device=tools.device)
        capital = np.array([tools.tokenizer.token_text(int(one)).isupper() for one in items.tokens[1:]], dtype=float)
        document = np.searchsorted(items.starts, np.arange(1, len(items.tokens)), side="right") - 1
        sums, weights = (np.bincount(document, what, minlength=len(items.starts)) for what in (nats * capital, capital))
        units = {**outcomes.units, "capital_loss": Units(sums, weights)}
        return replace(outcomes, units=units, figures={**outcomes.figures, "capital_loss": ratio(sums, weights)})
