"""Interventions inside a ``with`` (ablating a head, patching an activation from another text), and their effects.

    with ablated(places, layer=0, head=2, how="mean", rows=rows):
        ...  # the network without that head

Afterwards the network's output is bit-identical to that before. The effect of an ablation is the increase of the loss in nats
per token for a network that predicts the next token; for others it is the Kullback-Leibler divergence between the outputs
with and without the head.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from glassformer.foundation.distributions import t_upper
from glassformer.foundation.errors import BadArgument, UsageError
from glassformer.foundation.estimate import Estimate
from glassformer.lens.capture import Change, Places, capture, changed, hidden_mask
from glassformer.lens.head_statistics import Floats
from glassformer.lens.logit_lens import token_losses

HOW = ("zero", "mean", "resample")


def require_head(places: Places, layer: int, head: int | None = None) -> None:
    """Raises if there is no such layer or head."""
    dims = places.network.dims
    if not dims.layers:
        raise BadArgument("layer", layer, "the layers of this network, if it has any, are not known; leave it out")
    if not 0 <= layer < dims.layers:
        raise BadArgument("layer", layer, f"this network has the layers 0 to {dims.layers - 1}; give one of them")
    if head is not None and not 0 <= head < dims.heads:
        raise BadArgument("head", head, f"each layer has the heads 0 to {dims.heads - 1}; give one of them")


def require_how(how: str) -> None:
    """Raises for an unknown method."""
    if how not in HOW:
        raise UsageError(f"how={how!r} cannot be used: choose {', '.join(HOW)}.", reason="unknown-ablation")


def output_of(places: Places, layer: int) -> str:
    """The place with a layer's outputs by head."""
    name = places.outputs[layer]
    if name is None:
        raise UsageError(f"Layer {layer} does not expose the outputs of single heads, so none can be ablated.")
    return name


@contextmanager
def ablated(
    places: Places,
    *,
    layer: int,
    head: int,
    how: str = "zero",
    rows: Sequence[Tensor] = (),
    row: int = 0,
    hide: Sequence[int] = (),
) -> Iterator[None]:
    """Ablates one head. ``zero``: its output is zeros; ``mean``: the mean of its output over ``rows`` (ids of texts);
    ``resample``: its output on the text after number ``row`` of ``rows``, position by position, repeated if that text is
    shorter. ``hide``: positions that no query of ``rows`` attends to."""
    require_head(places, layer, head)
    require_how(how)
    name = output_of(places, layer)
    values = () if how == "zero" else _needed(places, name, how, rows, hide)
    with changed(places, {name: replacement(how, head, values, row)}):
        yield


def replacement(how: str, head: int, values: Sequence[Tensor], row: int) -> Change:
    """``values``: the place's activation for each text, [H, T, E]."""
    require_how(how)

    def change(z_BHTE: Tensor) -> Tensor:
        if how == "zero":
            z_BHTE[:, head] = 0.0
        elif how == "mean":
            z_BHTE[:, head] = torch.cat([value_HTE[head] for value_HTE in values]).mean(dim=0)
        else:
            other_TE = values[(row + 1) % len(values)][head]
            z_BHTE[:, head] = other_TE[torch.arange(z_BHTE.shape[2], device=z_BHTE.device) % len(other_TE)]
        return z_BHTE

    return change


def _needed(places: Places, name: str, how: str, rows: Sequence[Tensor], hide: Sequence[int]) -> list[Tensor]:
    least = 2 if how == "resample" else 1
    if len(rows) < least:
        raise UsageError(
            f"how={how!r} needs at least {least} text(s) to take outputs from; give more.",
            reason="too-few-texts",
        )
    masks = [hidden_mask(ids_T[None], hide) for ids_T in rows]
    return [capture(places, ids_T[None], [name], hidden_BS=mask).values[name][0] for ids_T, mask in zip(rows, masks)]


@contextmanager
def patched(
    places: Places, name: str, value: Tensor, *, positions: Sequence[int] | None = None, head: int | None = None
) -> Iterator[None]:
    """Replaces the activation at ``name`` by ``value`` (captured on another text), at all positions or some.

    ``head``: only that head of a place with an axis of heads.
    """
    axes = places[name].axes
    along = next((number for number, axis in enumerate(axes) if axis in ("position", "query")), None)
    if along is None or (head is not None and "head" not in axes):
        raise UsageError(f"{name} has the axes {', '.join(axes)}: it cannot be patched by {'head' if along else 'position'}.")

    def change(found: Tensor) -> Tensor:
        if found.shape[1:] != value.shape[1:]:
            raise UsageError(
                f"The two texts do not have the same length at {name} ({tuple(found.shape)} and {tuple(value.shape)}); "
                "patching needs texts with equally many tokens.",
                reason="different-lengths",
            )
        where: list[slice | Sequence[int] | int] = [slice(None)] * found.dim()
        if positions is not None:
            where[along] = list(positions)
        if head is not None:
            where[axes.index("head")] = head
        found[tuple(where)] = value[tuple(where)]
        return found

    with changed(places, {name: change}):
        yield


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
        raise UsageError(
            "There is no text to measure effects on; give at least one, and two for an interval.", reason="no-text"
        )
    if how == "resample" and len(rows) < 2:
        raise UsageError("how='resample' takes outputs from another text; give two texts at least.", reason="too-few-texts")
    dims = places.network.dims
    predicts = dims.causal and dims.outputs is None
    if predicts and min(len(ids_T) for ids_T in rows) < 2:
        raise UsageError("A text of one token has no loss; give longer texts.", reason="text-too-short")
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
        raise UsageError(
            f"The texts have {len(from_T)} and {len(into_T)} tokens; patching needs equally many.", reason="different-lengths"
        )
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
        raise UsageError(
            "Both texts give the same score difference, so patching has nothing to restore; give other texts.",
            reason="same-difference",
        )
    found = np.empty((len(names), len(into_T)))
    for layer, name in enumerate(names):
        for position in range(len(into_T)):
            with patched(places, name, first.values[name], positions=[position]):
                found[layer, position] = into()
    return (found - bottom) / (top - bottom)
