"""Hook points ("places") of a network by name; activations captured there in a pass, or replaced inside a ``with``.

Our models have taps. A transformers encoder has none, so its self-attention modules and layers serve as places; they return
attention weights only in eager mode. Of a network of a user's own every module is a place. Everything lasts for one pass or
for a ``with``: hooks are removed, modes and random generators restored, and the network's output is bit-identical afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.foundation.errors import UnknownName, UsageError
from glassformer.model.network import Network, evaluating
from glassformer.model.own_network import OwnNetwork
from glassformer.model.tap import BY_HEAD, PATTERN, STREAM, Tap

Change = Callable[[Tensor], Tensor]
"""A function: activation -> its replacement. It gets a copy."""
_PROJECTS_ITSELF = ("out_lin", "o", "out_proj", "dense")
"""Submodules of self-attention that mix the heads, so that their outputs are not separate afterwards."""


@dataclass(frozen=True)
class Place:
    """``part``: which part of the module's output; ``heads``: the number of heads to split a vector into; ``call``: which of
    the module's ``calls`` in one pass (more than one where layers share a block)."""

    name: str
    axes: tuple[str, ...]
    module: nn.Module
    part: Literal["whole", "first", "weights"] = "whole"
    heads: int = 0
    call: int = 0
    calls: int = 1

    def hook(self, react: Callable[[Any], Any]) -> RemovableHandle:
        """``react`` gets the module's output at this place and may return another one."""
        seen = itertools.count()
        return self.module.register_forward_hook(
            lambda module, inputs, output: react(output) if next(seen) % self.calls == self.call else None
        )

    def read(self, output: Any) -> Tensor:
        """The place's activation from the module's output."""
        value: Tensor = output if isinstance(output, Tensor) else output[1 if self.part == "weights" else 0]
        return value.unflatten(-1, (self.heads, -1)).transpose(1, 2) if self.heads else value

    def is_in(self, output: Any) -> bool:
        """Whether there is such an activation: a module of a user's own may give anything."""
        first = output[0] if isinstance(output, tuple | list) and output else output
        return isinstance(first, Tensor) and first.ndim > 1 if self.part == "first" else True

    def replaced(self, output: Any, value: Tensor) -> Any:
        """The module's output with another activation at this place."""
        if self.heads:
            value = value.transpose(1, 2).flatten(-2)
        if isinstance(output, Tensor):
            return value
        if self.part == "weights":
            raise UsageError(f"{self.name} of a transformers model can be read, not replaced; replace its heads instead.")
        return (value, *output[1:])


@final
class Places:
    """All places of a network, and those of attention patterns, head outputs and the residual stream by layer.

    ``cross``: the patterns and outputs are those of a decoder's attention to its source, not to its own target.
    """

    def __init__(self, network: Network, *, cross: bool = False) -> None:
        self.network, self.cross = network, cross
        inside = getattr(network, "decoder_path", "")  # of a network given its source, the places are the decoder's
        taps = {
            (short := name.removeprefix(inside)): Place(short, part.axes, part)
            for name, part in network.named_modules()
            if isinstance(part, Tap) and part.axes and name.startswith(inside)
        }
        taps = _by_layer(taps, getattr(network, "order", ()))
        self.by_name = taps or _of_transformers(network) or _of_modules(network)

    def __getitem__(self, name: str) -> Place:
        if name not in self.by_name:
            raise UnknownName("This network", name, self.by_name)
        return self.by_name[name]

    @cached_property
    def patterns(self) -> list[str | None]:
        """The attention pattern of each layer; None where the mixer forms none."""
        return [self._in_layer(layer, PATTERN, ".pattern") for layer in range(self.layers)]

    @cached_property
    def outputs(self) -> list[str | None]:
        """The head outputs of each layer, before they are merged."""
        return [self._in_layer(layer, BY_HEAD, ".heads") for layer in range(self.layers)]

    @cached_property
    def streams(self) -> list[str]:
        """The residual stream at the start, where there is a tap, and after each layer."""
        after = [self._in_layer(layer, STREAM, ".after") for layer in range(self.layers)]
        return [name for name in ("embedded" if "embedded" in self.by_name else None, *after) if name is not None]

    @property
    def layers(self) -> int:
        return self.network.dims.layers

    def _in_layer(self, layer: int, axes: str, ending: str) -> str | None:
        wanted = tuple(axes.split())
        for name, place in self.by_name.items():
            number = next((part for part in name.split(".") if part.isdigit()), None)
            fits = name.endswith(ending) and place.axes == wanted and number == str(layer)
            if fits and (axes == STREAM or (".cross." in name) == self.cross):
                return name
        return None


def _by_layer(taps: dict[str, Place], order: Sequence[int]) -> dict[str, Place]:
    """The same, with the taps of a block that several layers apply once for each, under the layer's number: ``layers.N...``."""
    if len(set(order)) == len(order):
        return taps
    found = {name: place for name, place in taps.items() if not name.startswith("blocks.")}
    for layer, block in enumerate(order):
        start, call, calls = f"blocks.{block}.", order[:layer].count(block), order.count(block)
        for name, place in taps.items():
            if name.startswith(start):
                of_layer = f"layers.{layer}.{name.removeprefix(start)}"
                found[of_layer] = replace(place, name=of_layer, call=call, calls=calls)
    return found


def _of_transformers(network: Any) -> dict[str, Place]:
    """The places of an encoder of transformers."""
    found: dict[str, Place] = {}
    encoder, dims = getattr(network, "encoder", None), network.dims
    if encoder is None:
        return found
    for name, module in encoder.named_modules(prefix="encoder"):
        if type(module).__name__.endswith("SelfAttention"):
            found[f"{name}.pattern"] = Place(f"{name}.pattern", tuple(PATTERN.split()), module, "weights")
            if not any(hasattr(module, child) for child in _PROJECTS_ITSELF):
                found[f"{name}.heads"] = Place(f"{name}.heads", tuple(BY_HEAD.split()), module, "first", dims.heads)
        elif isinstance(module, nn.ModuleList) and len(module) == dims.layers:
            for number, layer in enumerate(module):
                place = f"{name}.{number}.after"
                found[place] = Place(place, tuple(STREAM.split()), layer, "first")
    return found


def _of_modules(network: Network) -> dict[str, Place]:
    """Every module inside a network of a user's own that is called; what it gives may have other axes."""
    if not isinstance(network, OwnNetwork):
        return {}
    called = {
        name: part
        for name, part in network.module.named_modules(prefix="module")
        if part is not network.module and not isinstance(part, nn.ModuleList | nn.ModuleDict)
    }
    return {name: Place(name, tuple(STREAM.split()), part, "first") for name, part in called.items()}


@dataclass(frozen=True)
class Captured:
    """``scores``: the logits; ``values``: activations by place name."""

    scores: Tensor
    values: Mapping[str, Tensor]


def capture(places: Places, ids_BT: Tensor, names: Sequence[str] = (), *, hidden_BS: Tensor | None = None) -> Captured:
    """One forward pass. ``hidden_BS``: True at positions that no query may attend to. A place that this pass does not call, or
    that gives no tensor, is missing among the values."""
    values: dict[str, Tensor] = {}
    network, rows = places.network, len(ids_BT)

    def keep(place: Place) -> Callable[[Any], None]:
        def hook(output: Any) -> None:
            if place.is_in(output):
                value = place.read(output).detach()
                one_for_all = value.shape[0] == 1  # a pattern may be the same for all rows
                values[place.name] = value.expand(rows, *value.shape[1:]).clone() if one_for_all else value.clone()

        return hook

    with ExitStack() as after, quiet(network):
        for place in [places[name] for name in names]:
            after.callback(place.hook(keep(place)).remove)
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

    def write(place: Place, change: Change) -> Callable[[Any], Any]:
        return lambda output: place.replaced(output, change(place.read(output).clone()))

    with ExitStack() as after:
        for name, change in changes.items():
            place = places[name]
            after.callback(place.hook(write(place, change)).remove)
        yield


@contextmanager
def quiet(network: Network) -> Iterator[None]:
    """Evaluation mode, no gradients, eager attention in transformers (which returns weights); restored afterwards."""
    encoder: Any = getattr(network, "encoder", None)
    form = getattr(getattr(encoder, "config", None), "_attn_implementation", None)
    told = getattr(getattr(encoder, "config", None), "output_attentions", None)
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    try:
        if form is not None:
            encoder.set_attn_implementation("eager")
        if form == "eager":  # classes without fused attention (DeBERTa, MPNet) do not return weights by default
            encoder.config.output_attentions = True
        with evaluating(network), torch.no_grad(), torch.random.fork_rng(devices=devices):
            yield
    finally:
        if form == "eager":
            encoder.config.output_attentions = told
        if form is not None:
            encoder.set_attn_implementation(form)
