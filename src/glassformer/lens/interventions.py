"""Interventions inside a ``with``: ablating or replacing a head's output, patching an activation from another text.

    with ablated(places, layer=0, head=2, how="mean", rows=rows):
        ...  # the network without that head

Afterwards the network's output is bit-identical to that before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from glassformer.foundation.errors import BadArgument, UsageError
from glassformer.lens.capture import Change, capture, changed, hidden_mask
from glassformer.lens.places import Places

HOW = ("zero", "mean", "resample")


def require_head(places: Places, layer: int, head: int | None = None) -> None:
    """Raises if there is no such layer or head."""
    dims = places.network.dims
    if not 0 <= layer < dims.layers:
        raise BadArgument("layer", layer, f"this network has the layers 0 to {dims.layers - 1}; give one of them")
    if head is not None and not 0 <= head < dims.heads:
        raise BadArgument("head", head, f"each layer has the heads 0 to {dims.heads - 1}; give one of them")


def require_how(how: str) -> None:
    """Raises for an unknown method."""
    if how not in HOW:
        raise UsageError(f"how={how!r} cannot be used: choose {', '.join(HOW)}.")


def output_of(places: Places, layer: int) -> str:
    """The place with a layer's outputs by head."""
    name = places.outputs[layer]
    if name is None:
        raise UsageError(f"Layer {layer} shows no outputs of single heads, so none of them can be taken out.")
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
        raise UsageError(f"how={how!r} needs {least} text{'s' if least > 1 else ''} at least, to take outputs from; give more.")
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
                "patching needs texts of as many tokens."
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
