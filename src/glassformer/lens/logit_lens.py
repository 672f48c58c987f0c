"""The logit lens: the residual stream after each layer mapped to logits by the network's own final norm and head.

So the last layer's logits are the network's output. Also losses by token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.lens.head_statistics import Floats


@dataclass(frozen=True)
class LogitLens:
    """Logits by layer [L, T, V], or [L, 1, C] for a classifier. Row 0: the embedding, if tapped."""

    scores: Tensor
    names: tuple[str, ...]

    @property
    def probabilities(self) -> Tensor:
        return torch.softmax(self.scores.float(), dim=-1)

    def top(self, count: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The most probable outputs: ids and probabilities, each [L, T, count], in descending order."""
        found = self.probabilities.topk(min(count, self.scores.shape[-1]), dim=-1)
        return found.indices.cpu().numpy(), found.values.cpu().numpy()


def logit_lens(network: Any, streams: dict[str, Tensor], hidden_BS: Tensor | None = None) -> LogitLens:
    """``streams``: name -> the residual stream [1, T, D], in order of depth."""
    norm = getattr(network, "final_norm", None)
    with torch.no_grad():
        rows = [network.logits(x_BTD if norm is None else norm(x_BTD), hidden_BS) for x_BTD in streams.values()]
    scores = torch.stack([row[0] if row.dim() == 3 else row for row in rows])
    return LogitLens(scores.cpu(), tuple(streams))


def token_losses(scores_TV: Tensor, ids_T: Tensor) -> Floats:
    """The loss of each token in nats; NaN for the first, which is not predicted. [T]"""
    logs_TV = torch.log_softmax(scores_TV[:-1].double(), dim=-1)
    nats = -logs_TV.gather(1, ids_T[1:, None]).squeeze(1)
    return np.concatenate([[np.nan], nats.cpu().numpy()])
