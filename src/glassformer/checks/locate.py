"""Two forward passes that should agree -> the first module at which they differ.

Inputs and outputs of all modules are compared in execution order. If an output differs first, the fault is in that module; if
an input differs first, it is in the forward method of the calling module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checks.passes import Passes, Setting, difference, largest
from glassformer.model.tap import Tap


@dataclass(frozen=True)
class Region:
    """The part that must agree: positions ``start`` to ``stop`` of row ``row``, of ``rows`` rows of ``length`` tokens."""

    rows: int
    length: int
    row: int
    start: int
    stop: int

    def of(self, tensor: Tensor) -> Tensor | None:
        """That part of an activation, by the sizes of its axes; None where they are ambiguous."""
        time_axes = [axis for axis, size in enumerate(tensor.shape) if size == self.length and axis > 0]
        if not time_axes and tensor.ndim and tensor.shape[0] == self.rows * self.length:  # rows and time in one axis
            tensor = tensor.unflatten(0, (self.rows, self.length))
            time_axes = [1]
        elif not time_axes and tensor.ndim and tensor.shape[0] == self.length:  # time first
            time_axes = [0]
        if not time_axes:
            return None
        for axis in time_axes:  # an attention pattern has two
            tensor = tensor.narrow(axis, self.start, self.stop - self.start)
        batch_axis = 1 if time_axes[0] == 0 else 0
        if tensor.ndim <= batch_axis or tensor.shape[batch_axis] in (1, self.length):
            return tensor
        if tensor.shape[batch_axis] % self.rows:
            return None
        share = tensor.shape[batch_axis] // self.rows  # heads and rows may share an axis
        return tensor.narrow(batch_axis, self.row * share, share)


@dataclass(frozen=True)
class _Event:
    place: str
    """The module at fault if this is the first difference."""
    tensors: tuple[Tensor, ...]


def locate(
    passes: Passes,
    setting: Setting,
    first: Callable[[], Tensor],
    second: Callable[[], Tensor],
    first_region: Region,
    second_region: Region,
    *,
    same_shape: bool = True,
    only_last: bool = False,
) -> str:
    """The name of the module where the two passes differ first within their regions.

    ``only_last``: the second pass calls the model several times; only the last call is compared.
    """
    one, other = _record(passes, setting, first, first_region), _record(passes, setting, second, second_region)
    if only_last:
        other = other[-len(one) :]
    for event, twin in zip(one, other):
        for tensor, again in zip(event.tensors, twin.tensors):
            if tensor.shape != again.shape:
                continue
            allowed = passes.allowed(setting, tensor.dtype, same_shape=same_shape) if tensor.is_floating_point() else 0.0
            if _differ(tensor, again, allowed):
                return event.place
    return passes.subject.name


def _differ(tensor: Tensor, again: Tensor, allowed: float) -> bool:
    if not tensor.numel() or torch.equal(tensor, again):
        return False
    if not tensor.is_floating_point():
        return True
    return float(difference(tensor, again).max()) > allowed * largest(tensor)


def _record(passes: Passes, setting: Setting, call: Callable[[], Tensor], region: Region) -> list[_Event]:
    events: list[_Event] = []
    callers: list[str] = []

    def note(place: str, values: Any) -> None:
        parts = (region.of(tensor) for tensor in _tensors(values))
        events.append(_Event(place, tuple(part.detach().clone() for part in parts if part is not None)))

    def entering(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, keywords: Any) -> None:
            if callers:
                note(callers[-1], (inputs, keywords))
            callers.append(name)

        return hook

    def leaving(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            callers.pop()
            note(name, output)

        return hook

    with ExitStack() as stack:
        for name, module in passes.subject.named_modules():
            if isinstance(module, Tap) and not setting.looked_at:
                continue  # a hook on a tap would disable the fast path
            stack.callback(module.register_forward_pre_hook(entering(name), with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(leaving(name)).remove)
        passes.run(setting, call)
    return events


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from _tensors(value)
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)
