"""Queries, keys, values -> scores, weights and outputs of attention, step by step: the calculator.

The functions are the model's own (``model/attention.py``); nothing is searched for, nothing proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch

from glassformer.byhand.explorations.argmax import argmax_pattern
from glassformer.byhand.problem import Array, as_matrix, as_scale, key_number, worked_keys
from glassformer.byhand.result import Result, number, vector
from glassformer.foundation.errors import ConfigError
from glassformer.model.attention import attention_pattern, attention_scores, causal_mask

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True)
class Attended(Result):
    """Every step of one calculation: rows are queries, columns keys."""

    queries: Array
    keys: Array
    values: Array | None
    scale: float
    visible: np.ndarray
    argmax: bool
    scores: Array
    weights: Array
    outputs: Array | None

    @property
    def title(self) -> str:
        return "attend: argmax attention" if self.argmax else "attend"

    @property
    def text(self) -> str:
        factor = "" if self.scale == 1 else f"{number(self.scale)} * "
        lines = []
        for place, (query, scores, weights) in enumerate(zip(self.queries, self.scores, self.weights)):
            name = "q" if len(self.queries) == 1 else f"q{place + 1}"
            seen = ["hidden" if not seen else number(score) for seen, score in zip(self.visible[place], scores.tolist())]
            lines.append(f"{name} = {vector(query)}")
            lines.append(f"  scores  {factor}{name} . k = ({', '.join(seen)})")
            lines.append(
                f"  weights {'argmax' if self.argmax else 'softmax'} = {vector(weights)}, sum {number(float(weights.sum()))}"
            )
            if self.outputs is not None:
                lines.append(f"  output  weights . v = {vector(self.outputs[place])}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "argmax": self.argmax,
            "visible": self.visible.tolist(),
            "scores": self.scores.tolist(),
            "weights": self.weights.tolist(),
            "outputs": None if self.outputs is None else self.outputs.tolist(),
        }

    def figure(self) -> Figure:
        from glassformer.figures.byhand import pattern_figure

        return pattern_figure(title=self.title, patterns={"weights": self.weights})


def attend_by_hand(
    queries: Any, keys: Any, values: Any = None, *, scale: Any = 1.0, mask: Any = None, argmax: bool = False, folder: Any = None
) -> Attended:
    """``mask``: numbers of keys that no query sees, or "causal" (as many queries as keys). ``values`` may be left out."""
    k_SE = worked_keys() if isinstance(keys, str) and keys == "worked" else as_matrix("keys", keys, folder=folder)
    q_TE = as_matrix("query", queries, folder=folder)
    if q_TE.shape[1] != k_SE.shape[1]:
        raise ConfigError(
            f"query has {q_TE.shape[1]} numbers, but each key has {k_SE.shape[1]}; give as many, or several queries divided by "
            "semicolons.",
            reason="query-width",
        )
    v_SE = None if values is None else as_matrix("values", values, folder=folder)
    if v_SE is not None and len(v_SE) != len(k_SE):
        raise ConfigError(f"values has {len(v_SE)} rows for {len(k_SE)} keys; give one value per key.", reason="values-per-key")
    factor = as_scale(scale, k_SE.shape[1])
    visible_TS = _visible(mask, len(q_TE), len(k_SE))
    scores_TS = attention_scores(torch.from_numpy(q_TE), torch.from_numpy(k_SE), scale=factor)
    mask_TS = torch.from_numpy(visible_TS)
    if argmax:
        weights_TS = argmax_pattern(scores_TS.masked_fill(~mask_TS, -torch.inf)).masked_fill(~mask_TS, 0.0)
    else:
        weights_TS = attention_pattern(scores_TS, mask_TS)
    weights = weights_TS.numpy()
    outputs = None if v_SE is None else weights @ v_SE
    return Attended(q_TE, k_SE, v_SE, factor, visible_TS, argmax, scores_TS.numpy(), weights, outputs)


def _visible(mask: Any, queries: int, keys: int) -> np.ndarray:
    """True where a query sees a key."""
    visible = np.ones((queries, keys), bool)
    if mask is None:
        return visible
    if isinstance(mask, str) and mask.strip() == "causal":
        if queries != keys:
            raise ConfigError(
                f"mask=causal needs a query for each key, but there are {queries} and {keys}; give as many, or the numbers of "
                "the keys to hide.",
                reason="causal-needs-a-query-per-key",
            )
        return causal_mask(torch.arange(queries), keys).numpy()
    words = mask.replace(",", " ").split() if isinstance(mask, str) else np.atleast_1d(mask).tolist()
    for word in words:
        visible[:, key_number("mask", word, keys)] = False
    return visible
