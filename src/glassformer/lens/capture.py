"""Captures activations at named hook points during a forward pass, and replaces them inside a ``with``.

Everything lasts for one pass or for a ``with``: hooks are removed, modes and random generators restored, and the network's
output is bit-identical afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.lens.places import Place, Places
from glassformer.model.network import Network

Change = Callable[[Tensor], Tensor]
"""A function: activation -> its replacement. It gets a copy."""


@dataclass(frozen=True)
class Captured:
    """``scores``: the logits; ``values``: activations by place name."""

    scores: Tensor
    values: Mapping[str, Tensor]


def capture(places: Places, ids_BT: Tensor, names: Sequence[str] = (), *, hidden_BS: Tensor | None = None) -> Captured:
    """One forward pass. ``hidden_BS``: True at positions that no query may attend to."""
    values: dict[str, Tensor] = {}
    network, rows = places.network, len(ids_BT)

    def keep(place: Place) -> Callable[..., None]:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            value = place.read(output).detach()
            values[place.name] = value.expand(rows, *value.shape[1:]).clone()  # a pattern may be the same for all rows

        return hook

    with ExitStack() as after, quiet(network):
        for place in [places[name] for name in names]:
            after.callback(place.module.register_forward_hook(keep(place)).remove)
        scores = network(ids_BT, key_padding_mask_BS=hidden_BS)
    return Captured(scores.detach(), values)


def hidden_mask(ids_BT: Tensor, hide: Sequence[int]) -> Tensor | None:
    """True at those positions of ``hide`` that the text has, in every row; None if there are none."""
    if not hide:
        return None
    mask_BS = torch.zeros_like(ids_BT, dtype=torch.bool)
    mask_BS[:, [position for position in hide if position < ids_BT.shape[1]]] = True
    return mask_BS


@contextmanager
def changed(places: Places, changes: Mapping[str, Change]) -> Iterator[None]:
    """Inside the ``with`` the activations at these places are replaced. ``capture`` sees the replaced values."""

    def write(place: Place, change: Change) -> Callable[..., Any]:
        return lambda module, inputs, output: place.replaced(output, change(place.read(output).clone()))

    with ExitStack() as after:
        for name, change in changes.items():
            place = places[name]
            after.callback(place.module.register_forward_hook(write(place, change)).remove)
        yield


@contextmanager
def quiet(network: Network) -> Iterator[None]:
    """Evaluation mode, no gradients, eager attention in transformers (which returns weights); restored afterwards."""
    modes = [(part, part.training) for part in network.modules()]
    encoder: Any = getattr(network, "encoder", None)
    form = getattr(getattr(encoder, "config", None), "_attn_implementation", None)
    told = getattr(getattr(encoder, "config", None), "output_attentions", None)
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    try:
        network.eval()
        if form is not None:
            encoder.set_attn_implementation("eager")
        if form == "eager":  # classes without fused attention (DeBERTa, MPNet) do not return weights by default
            encoder.config.output_attentions = True
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            yield
    finally:
        for part, mode in modes:
            part.training = mode
        if form == "eager":
            encoder.config.output_attentions = told
        if form is not None:
            encoder.set_attn_implementation(form)
