"""The sampling variance of a weighted mean over documents, or over the blocks of one text.

Documents are weighted by their tokens. Adjacent blocks are autocorrelated. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.evaluation.statistics import block_variance, num_cosines
from glassformer.foundation.distributions import Floats

SMALLEST = 1e-12  # a smaller difference of a document is rounding error


@dataclass(frozen=True)
class Units:
    """The documents, or the blocks of one text, with their weights (sum 1), as a random sample."""

    weights: Floats
    blocks: bool

    @property
    def effective(self) -> float:
        return float(1.0 / (self.weights**2).sum())

    @property
    def df(self) -> float:
        if len(self.weights) < 2:
            return 0.0
        return float(num_cosines(len(self.weights))) if self.blocks else self.effective - 1.0

    def variance(self, spread: Floats) -> Floats:
        """The variance of the weighted mean from ``spread[..., document]``, each document's deviation from that mean.

        Documents: the jackknife, valid also where few documents hold most of the tokens. Blocks: from the low-frequency
        components along the text (``block_variance``), because adjacent blocks are autocorrelated.
        """
        m = len(self.weights)
        if m < 2:
            return np.full(spread.shape[:-1], np.inf)
        if self.blocks:
            return block_variance(self.weights * spread)
        return np.asarray((m - 1) / m * (spread**2 @ (self.weights / (1.0 - self.weights)) ** 2))

    def residual_variance(self, d: Floats, seed_means: Floats, spread: Floats) -> Floats:
        """The part of the variance over documents that comes from the residual (seed x document) noise."""
        n = d.shape[-2]
        cells = d - seed_means[..., None] - spread[..., None, :]
        return np.asarray(self.variance(cells).sum(axis=-1) / (n * (n - 1)))

    def summary(self, document_means: Floats) -> dict[str, Any]:
        """The fields of ``TwoWayEffects`` about documents."""
        return {
            "documents": len(self.weights),
            "effective_documents": self.effective,
            "documents_df": self.df,
            "largest": np.max(self.effective * self.weights * np.abs(document_means), axis=-1),
            "differing": (np.abs(document_means) > SMALLEST).sum(axis=-1),
        }


def units_of(d: Floats, weights: npt.ArrayLike | None, blocks: bool) -> tuple[Floats, Units]:
    w = np.ones(d.shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    assert w.shape == d.shape[-1:]
    assert np.all(w >= 0.0)
    return d[..., w > 0.0], Units(w[w > 0.0] / w.sum(), blocks)
