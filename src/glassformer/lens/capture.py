"""A network and token ids -> what stands at named places while it reads them; and a way to replace it meanwhile.

Everything lasts for one pass or for a ``with``: hooks are removed, modes and random numbers put back, and the network
gives the same bits as before.
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
"""What stands at a place -> what is to stand there instead. It gets a copy."""


@dataclass(frozen=True)
class Captured:
    """``scores``: what the head gave; ``values``: by the names of places."""

    scores: Tensor
    values: Mapping[str, Tensor]


def capture(places: Places, ids_BT: Tensor, names: Sequence[str] = (), *, hidden_BS: Tensor | None = None) -> Captured:
    """One pass. ``hidden_BS``: True at positions that no query may attend to."""
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
    """True at the positions of ``hide``, as far as the text has them, in every row; None where nothing is hidden."""
    if not hide:
        return None
    mask_BS = torch.zeros_like(ids_BT, dtype=torch.bool)
    mask_BS[:, [position for position in hide if position < ids_BT.shape[1]]] = True
    return mask_BS


@contextmanager
def changed(places: Places, changes: Mapping[str, Change]) -> Iterator[None]:
    """While it lasts, what stands at the places is replaced. ``capture`` inside sees the replaced values."""

    def write(place: Place, change: Change) -> Callable[..., Any]:
        return lambda module, inputs, output: place.replaced(output, change(place.read(output).clone()))

    with ExitStack() as after:
        for name, change in changes.items():
            place = places[name]
            after.callback(place.module.register_forward_hook(write(place, change)).remove)
        yield


@contextmanager
def quiet(network: Network) -> Iterator[None]:
    """Evaluation mode, no gradients, attention of transformers in the form that has weights; all as before afterwards."""
    modes = [(part, part.training) for part in network.modules()]
    encoder: Any = getattr(network, "encoder", None)
    form = getattr(getattr(encoder, "config", None), "_attn_implementation", None)
    told = getattr(getattr(encoder, "config", None), "output_attentions", None)
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    try:
        network.eval()
        if form is not None:
            encoder.set_attn_implementation("eager")
        if form == "eager":  # classes without fused attention (DeBERTa, MPNet) keep the weights to themselves unless told
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
