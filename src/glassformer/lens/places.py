"""A network -> its hook points ("places") by name, with named axes.

Our models have taps. A transformers encoder has none, so its self-attention modules and layers serve as places; they return
attention weights only in eager mode (see ``lens.capture``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, final

from torch import Tensor, nn

from glassformer.foundation.errors import UnknownName, UsageError
from glassformer.model.network import Network
from glassformer.model.tap import BY_HEAD, PATTERN, STREAM, Tap

_PROJECTS_ITSELF = ("out_lin", "o", "out_proj", "dense")
"""Submodules of self-attention that mix the heads, so that their outputs are not separate afterwards."""


@dataclass(frozen=True)
class Place:
    """``part``: which part of the module's output; ``heads``: the number of heads to split a vector into."""

    name: str
    axes: tuple[str, ...]
    module: nn.Module
    part: Literal["whole", "first", "weights"] = "whole"
    heads: int = 0

    def read(self, output: Any) -> Tensor:
        """The place's activation from the module's output."""
        value: Tensor = output if isinstance(output, Tensor) else output[1 if self.part == "weights" else 0]
        return value.unflatten(-1, (self.heads, -1)).transpose(1, 2) if self.heads else value

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
    """All places of a network, and those of attention patterns, head outputs and the residual stream by layer."""

    def __init__(self, network: Network) -> None:
        self.network = network
        taps = {
            name: Place(name, part.axes, part) for name, part in network.named_modules() if isinstance(part, Tap) and part.axes
        }
        self.by_name = taps or _of_transformers(network)

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
            if name.endswith(ending) and place.axes == wanted and _layer_of(name) == layer:
                return name
        return None


def _layer_of(name: str) -> int | None:
    """The first number in a dotted name."""
    return next((int(part) for part in name.split(".") if part.isdigit()), None)


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
