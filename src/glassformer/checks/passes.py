"""One pass of the thing under check in a stated way: mode, precision, weights, path; and leaving no trace of it.

Two passes in the same setting draw the same random numbers, so dropout falls on the same places in both.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.checks.double import InDouble
from glassformer.checks.subject import Subject

ROUNDING = {torch.float64: 2.0**14, torch.float32: 2.0**6, torch.bfloat16: 4.0, torch.float16: 4.0}
"""By how many of its own roundings (eps) a computation in each precision may differ from itself: 4e-12, 8e-6, 3e-2, 4e-3.

The same computation on the same shapes usually differs by nothing at all; a causal sum formed as a difference of sums, or
a convolution by FFT, differs by a few eps.
"""
SMALL_WORK = 1e10
"""Multiplications of one full row below which one thread is as fast as several, and much faster on a busy machine."""
RESHAPED = 2.0**9
"""How much more two computations of other shapes may differ: other kernels, other orders of summing."""


@dataclass(frozen=True)
class Setting:
    """A way to run the model."""

    mode: Literal["evaluation", "training"] = "evaluation"
    precision: Literal["float64", "as trained"] = "float64"
    stirred: bool = False
    """See parameters that are all zero as small random numbers."""
    looked_at: bool = False
    """Hold a look at every tap, so that no fast path is taken."""
    masked: bool = False
    """Pass a mask that hides nothing: another path through the model."""


class Passes:
    """Runs the subject. Use inside ``with passes.undisturbed():``."""

    def __init__(
        self,
        subject: Subject,
        *,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
        kernel: Callable[[Tensor], Tensor] | None = None,
        trained_precision: str = "float32",
        seed: int = 0,
    ) -> None:
        """``around``: what a training step's forward pass runs in. ``kernel``: that pass, where it is not the model's own."""
        self.subject, self.around, self.kernel, self.seed = subject, around, kernel, seed
        self.trained_precision = trained_precision
        self.eps = {"float64": torch.finfo(torch.float64).eps, "as trained": torch.finfo(torch.float32).eps}
        self.noise = {"float64": 0.0, "as trained": 0.0}
        self._doubles = {stirred: InDouble(stirred=stirred) for stirred in (False, True)}

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Modes, buffers, generators and the number of threads are afterwards as they were."""
        threads = torch.get_num_threads()
        if self.subject.row_work < SMALL_WORK:
            torch.set_num_threads(1)
        modules = [module for _, module in self.subject.named_modules()]
        modes = [module.training for module in modules]
        buffers = [(buffer, buffer.clone()) for module in self.subject.modules.values() for buffer in module.buffers()]
        state, numpy = random.getstate(), sys.modules.get("numpy")
        numpy_state = numpy.random.get_state() if numpy else None
        devices = [self.subject.device] if self.subject.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices=devices):
                yield
        finally:
            torch.set_num_threads(threads)
            for module, mode in zip(modules, modes):
                module.training = mode
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)
            random.setstate(state)
            if numpy:
                numpy.random.set_state(numpy_state)

    def scores(self, setting: Setting, ids_BT: Tensor) -> Tensor:
        """Scores of whole rows."""
        return self.run(setting, lambda: self.plain(setting, ids_BT))

    def run(self, setting: Setting, call: Callable[[], Tensor]) -> Tensor:
        """What ``call`` gives in this setting, without gradients."""
        with torch.no_grad(), self._set(setting), self._precision(setting):
            return call().detach()

    def gradients(self, setting: Setting, ids_BT: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """The largest gradient of ``loss(scores)`` at each token's vector, [B, T]; None where the vectors are not found."""
        double = InDouble(ids_BT, stirred=setting.stirred)

        def lay_open(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
            return double.laid_open(output) if inputs and double.is_the_ids(inputs[0]) else None

        try:
            with ExitStack() as stack, torch.enable_grad(), self._set(setting), double:
                for _, module in self.subject.named_modules():  # an embedding may have a backward pass of its own
                    if isinstance(module, nn.Embedding):
                        stack.callback(module.register_forward_hook(lay_open).remove)
                scores = self.plain(setting, ids_BT)
        except RuntimeError:  # code that was never meant for gradients; changed inputs still tell
            return None
        if not double.vectors or not scores.requires_grad:
            return None
        with self._set(setting):  # recomputed activations must meet the same dropout
            found = torch.autograd.grad(loss(scores), double.vectors, allow_unused=True)
        sizes = [gradient.abs().amax(-1) for gradient in found if gradient is not None]
        return torch.stack(sizes).amax(0) if sizes else None

    def allowed(self, setting: Setting, dtype: torch.dtype, *, same_shape: bool = True) -> float:
        """Largest difference, as a share of the largest score, that rounding can explain."""
        eps = max(self.eps[setting.precision], torch.finfo(dtype).eps)
        kind = next(kind for kind in ROUNDING if torch.finfo(kind).eps >= eps)
        share = ROUNDING[kind] * torch.finfo(kind).eps
        if not same_shape:
            share *= RESHAPED if kind is torch.float64 else 2.0**4
        return max(share, 8 * self.noise[setting.precision])

    def calibrate(self, ids_BT: Tensor) -> list[str]:
        """Learns what the machine does: whether float64 works, the coarsest float used, and noise between equal passes."""
        notes = []
        for setting in (Setting(), Setting(precision="as trained")):
            first, second = self.scores(setting, ids_BT), self.scores(setting, ids_BT)
            self.noise[setting.precision] = noise = relative(first, second)
            self.eps[setting.precision] = torch.finfo(first.dtype).eps
            if noise:
                notes.append(f"Two equal passes ({setting.precision}) differ by {noise:.1g} of the largest score.")
            if not first.isfinite().any():
                notes.append("No score is a finite number, so nothing can be said about them.")
        self.eps["float64"] = max(self.eps["float64"], self._doubles[False].eps)
        if self.eps["float64"] > torch.finfo(torch.float64).eps:
            notes.append(
                "Parts of this model compute in less than float64 whatever is asked: small leaks may hide in rounding."
            )
        with self.around():
            if torch.is_autocast_enabled(ids_BT.device.type):
                lower = torch.get_autocast_dtype(ids_BT.device.type)
                self.eps["as trained"] = max(self.eps["as trained"], torch.finfo(lower).eps)
        return notes

    def plain(self, setting: Setting, ids_BT: Tensor) -> Tensor:
        """The call itself, for ``run``: whole rows by the path the setting names."""
        if setting.masked:
            hiding = self.subject.paddings.get("anywhere") or self.subject.paddings["right"]
            return hiding(ids_BT, torch.zeros(ids_BT.shape, dtype=torch.bool, device=ids_BT.device))
        if setting.precision == "as trained" and setting.mode == "training" and self.kernel is not None:
            return self.kernel(ids_BT)
        return self.subject.scores(ids_BT)

    def said(self, setting: Setting) -> dict[str, str]:
        """The setting in words, for the example of a finding."""
        words = {
            "mode": setting.mode,
            "precision": setting.precision if setting.precision == "float64" else self.trained_precision,
        }
        if setting.stirred:
            words["weights"] = "all-zero parameters seen as small random numbers"
        if setting.looked_at:
            words["path"] = "the definition, as when looked at"
        if setting.masked:
            words["path"] = "with a mask that hides nothing"
        if self.subject.measured != "scores":
            words["measured"] = self.subject.measured
        return words

    @contextmanager
    def _set(self, setting: Setting) -> Iterator[None]:
        for module in self.subject.modules.values():
            module.train(setting.mode == "training")
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(self.seed % 2**32)
        with ExitStack() as stack:
            for tap in self.subject.taps() if setting.looked_at else ():
                stack.callback(tap.register_forward_hook(_look).remove)
            yield

    def _precision(self, setting: Setting) -> AbstractContextManager[Any]:
        return self._doubles[setting.stirred] if setting.precision == "float64" else self.around()


def _look(module: Any, inputs: Any, output: Any) -> None:
    """A hook that does nothing but be there."""


def differing(first: Tensor, second: Tensor) -> Tensor:
    """The largest distance at each place, [B, T]; places that are equal bit by bit, as nearly all are, cost one look."""
    change_BT = torch.zeros(first.shape[:-1], dtype=_at_least_float32(first), device=first.device)
    unequal_BT = (first != second).any(-1)
    if unequal_BT.any():
        change_BT[unequal_BT] = difference(first[unequal_BT], second[unequal_BT]).amax(-1)
    return change_BT


def difference(first: Tensor, second: Tensor) -> Tensor:
    """Elementwise distance; equal infinities and NaN in both are equal, NaN in one is infinitely far."""
    wide = _at_least_float32(first)
    distance = (first.to(wide) - second.to(wide)).abs()
    distance = distance.masked_fill(first == second, 0.0)
    return torch.where(distance.isnan(), torch.where(first.isnan() & second.isnan(), 0.0, torch.inf), distance)


def _at_least_float32(scores: Tensor) -> torch.dtype:
    """Of scores in bf16 too the distance is a number of at least 24 bits."""
    return torch.promote_types(scores.dtype, torch.float32)


def largest(scores: Tensor) -> float:
    """The largest finite size among the numbers; never zero, so that it can be divided by."""
    if not scores.numel():
        return 1.0
    low, high = (float(end) for end in torch.aminmax(scores))
    if math.isfinite(low) and math.isfinite(high):
        return max(-low, high, 1e-300)
    finite = scores[scores.isfinite()]
    return max(float(finite.abs().max()) if finite.numel() else 1.0, 1e-300)


def relative(first: Tensor, second: Tensor) -> float:
    """The largest distance as a share of the largest number."""
    return float(difference(first, second).max()) / largest(first)
