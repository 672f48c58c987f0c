"""Effects of ablating each head, with an interval over texts; and of activation patching between two texts.

For a network that predicts the next token the effect is the increase of its loss in nats per token; for others it is the
Kullback-Leibler divergence between the outputs with and without the head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from glassformer.foundation.distributions import t_upper
from glassformer.foundation.errors import UsageError
from glassformer.foundation.estimate import Estimate
from glassformer.lens.capture import capture, changed, hidden_mask
from glassformer.lens.interventions import output_of, patched, replacement
from glassformer.lens.logits import token_losses
from glassformer.lens.places import Places
from glassformer.lens.readouts import Floats


@final
@dataclass(frozen=True)
class HeadEffects:
    """``by_text`` [L, H, texts]: the increase of the loss (or the divergence) on each text."""

    how: str
    unit: str
    by_text: Floats

    def of(self, layer: int, head: int) -> Estimate:
        """The mean over the texts, with Student's interval."""
        values = self.by_text[layer, head]
        value, n = float(values.mean()), len(values)
        if n < 2:
            return Estimate(value, n=n)
        half = float(t_upper(0.025, n - 1)) * float(values.std(ddof=1)) / math.sqrt(n)
        return Estimate(value, value - half, value + half, n)

    def to_dict(self) -> dict[str, Any]:
        layers, heads, _ = self.by_text.shape
        table = [[self.of(layer, head).to_dict() for head in range(heads)] for layer in range(layers)]
        return {"how": self.how, "unit": self.unit, "effects": table}


def head_effects(places: Places, rows: Sequence[Tensor], *, how: str = "zero", hide: Sequence[int] = ()) -> HeadEffects:
    """Every head of every layer, on texts given as ids [T]; in all of them no query attends to the positions of ``hide``."""
    if not rows:
        raise UsageError("There is no text to measure effects on; give one at least, and two for an interval.")
    if how == "resample" and len(rows) < 2:
        raise UsageError("how='resample' takes outputs from another text; give two texts at least.")
    dims = places.network.dims
    predicts = dims.causal and dims.outputs is None
    if predicts and min(len(ids_T) for ids_T in rows) < 2:
        raise UsageError("A text of one token has no loss; give longer texts.")
    names = [output_of(places, layer) for layer in range(dims.layers)]
    masks = [hidden_mask(ids_T[None], hide) for ids_T in rows]
    passes = [capture(places, ids_T[None], names, hidden_BS=mask_BS) for ids_T, mask_BS in zip(rows, masks)]
    by_text = np.empty((dims.layers, dims.heads, len(rows)))
    for layer, name in enumerate(names):
        values = [one.values[name][0] for one in passes]
        for head in range(dims.heads):
            for row, ids_T in enumerate(rows):
                with changed(places, {name: replacement(how, head, values, row)}):
                    without = capture(places, ids_T[None], hidden_BS=masks[row]).scores
                by_text[layer, head, row] = _effect(passes[row].scores, without, ids_T, predicts=predicts)
    unit = "nats per token more" if predicts else "nats of divergence"
    return HeadEffects(how, unit, by_text)


def _effect(scores: Tensor, without: Tensor, ids_T: Tensor, *, predicts: bool) -> float:
    if predicts:
        loss, worse = (np.nanmean(token_losses(each[0], ids_T)) for each in (scores, without))
        return float(worse - loss)
    said, other = (torch.log_softmax(each.double(), dim=-1) for each in (scores, without))
    return float((said.exp() * (said - other)).sum(dim=-1).mean())


def patching_effects(
    places: Places,
    from_T: Tensor,
    into_T: Tensor,
    *,
    target: int,
    other: int,
    hide: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Floats:
    """Activation patching: the effect of replacing the residual stream by another text's, by layer and position, [L, T].

    Measured by the logit difference of ``target`` (likely after the first text) and ``other`` at the last position: 0 as for
    the second text, 1 as for the first. ``hide``: positions that no query attends to, of the first and of the second text.
    """
    if len(from_T) != len(into_T):
        raise UsageError(f"The texts have {len(from_T)} and {len(into_T)} tokens; patching needs equally many.")
    names = places.streams
    from_mask, into_mask = (hidden_mask(ids_T[None], hidden) for ids_T, hidden in zip((from_T, into_T), hide))
    first = capture(places, from_T[None], names, hidden_BS=from_mask)

    def difference(scores: Tensor) -> float:
        last_V = scores[0, -1] if scores.dim() == 3 else scores[0]
        return float(last_V[target] - last_V[other])

    def into() -> float:
        return difference(capture(places, into_T[None], hidden_BS=into_mask).scores)

    top, bottom = difference(first.scores), into()
    if top == bottom:
        raise UsageError("Both texts give the same difference of the two scores, so there is nothing to bring back.")
    found = np.empty((len(names), len(into_T)))
    for layer, name in enumerate(names):
        for position in range(len(into_T)):
            with patched(places, name, first.values[name], positions=[position]):
                found[layer, position] = into()
    return (found - bottom) / (top - bottom)
