"""Forward passes of the checked model in a given setting, without side effects; and the first module where two differ.

Two passes in the same setting (mode, precision, weights, code path) draw the same random numbers, so that dropout masks are
equal, and start from the same state: whatever a pass writes into the model is restored before the next.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.checks.float64_mode import InDouble
from glassformer.checks.state_snapshot import Snapshot
from glassformer.checks.subject import Subject
from glassformer.foundation.runtime import seed_torch
from glassformer.model.tap import Tap

ROUNDING = {torch.float64: 2.0**14, torch.float32: 2.0**6, torch.bfloat16: 4.0, torch.float16: 4.0}
"""Tolerance in units of eps by precision, for repeating the same computation: 4e-12, 8e-6, 3e-2, 4e-3.

The same computation on the same shapes is usually bit-identical; a causal sum computed as a difference of sums, or
a convolution by FFT, differs by a few eps.
"""
SMALL_WORK = 1e10
"""Multiplications per full row below which one thread is as fast as several, and much faster on a busy machine."""
TABLES_EXPLAIN = 1e-5
"""Up to this fraction of the largest logit, rounding of float32 buffers may explain a difference."""
RESHAPED = 2.0**9
"""Tolerance factor for computations of different shapes: other kernels, other orders of summation."""


@dataclass(frozen=True)
class Setting:
    """A way to run the model."""

    mode: Literal["evaluation", "training"] = "evaluation"
    precision: Literal["float64", "as trained"] = "float64"
    randomised: bool = False
    """Replace zero parameters by small random numbers."""
    looked_at: bool = False
    """Put a hook on every tap, so that no fast path is taken."""
    masked: bool = False
    """Pass a mask that masks nothing: another code path."""
    graded: bool = False
    """With gradients on in evaluation mode too; in training mode they are always on."""


class Passes:
    """Runs the subject. Use inside ``with passes.undisturbed():``."""

    def __init__(
        self,
        subject: Subject,
        *,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
        trained_precision: str = "float32",
        seed: int = 0,
    ) -> None:
        """``around``: the context of a training step's forward pass."""
        self.subject, self.around, self.seed = subject, around, seed
        self.trained_precision = trained_precision
        self.eps = {"float64": torch.finfo(torch.float64).eps, "as trained": torch.finfo(torch.float32).eps}
        self.noise = {"float64": 0.0, "as trained": 0.0}
        self.not_numbers: str | None = None
        self.ungraded = False
        """Whether the code cannot run with gradients on."""
        self.snapshot = subject.snapshot or Snapshot(*subject.modules.values())
        subject.snapshot = self.snapshot
        self._switched = [module for _, module in subject.named_modules()]
        self._doubles = {randomised: InDouble(randomised=randomised) for randomised in (False, True)}

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Restores the model, the random generators and the number of threads on exit."""
        threads = torch.get_num_threads()
        if self.subject.row_work < SMALL_WORK:
            torch.set_num_threads(1)
        try:
            with same_generators(self.subject.device), torch.inference_mode(False):
                yield
        finally:
            torch.set_num_threads(threads)
            self.snapshot.restore()

    def scores(self, setting: Setting, ids_BT: Tensor) -> Tensor:
        """Logits of whole rows."""
        return self.run(setting, lambda: self.forward(setting, ids_BT))

    def run(self, setting: Setting, call: Callable[[], Tensor], *, restore: bool = True) -> Tensor:
        """The result of ``call`` in this setting; side effects are undone, unless they are under test."""
        graded = (setting.graded or setting.mode == "training") and not self.ungraded
        try:
            precision = self._doubles[setting.randomised] if setting.precision == "float64" else self.around()
            with torch.set_grad_enabled(graded), self._set(setting), precision:
                return call().detach()
        finally:
            if restore:
                self.snapshot.restore()

    def gradients(self, setting: Setting, ids_BT: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """The largest gradient of ``loss(scores)`` at each token's vector, [B, T]; None if the vectors were not captured."""
        double = InDouble(ids_BT, randomised=setting.randomised)

        def capture_embedding(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
            return double.capture(output) if inputs and double.matches_ids(inputs[0], output) else None

        try:
            with ExitStack() as stack, torch.enable_grad(), self._set(setting), double:
                for _, module in self.subject.named_modules():  # an embedding may have a backward pass of its own
                    if isinstance(module, nn.Embedding):
                        stack.callback(module.register_forward_hook(capture_embedding).remove)
                    if getattr(module, "gradient_checkpointing", False) is True:  # recomputation would not be in float64
                        module.gradient_checkpointing = False  # type: ignore[assignment]  # restored with the rest
                scores = self.forward(setting, ids_BT)
                if not double.vectors or not scores.requires_grad:
                    return None
                value = loss(scores)
                self.reseed()  # recomputed activations need the same dropout
                found = torch.autograd.grad(value, double.vectors, allow_unused=True)
        except Exception:  # inference-only code may raise anything; perturbed inputs still work
            return None
        finally:
            self.snapshot.restore()
        sizes = [gradient.abs().amax(-1) for gradient in found if gradient is not None]
        return torch.stack(sizes).amax(0) if sizes else None

    def allowed(self, setting: Setting, dtype: torch.dtype, *, same_shape: bool = True) -> float:
        """The tolerance: the largest difference, relative to the largest logit, that rounding explains."""
        if setting.precision != "float64" and self.shapes_follow_tokens:
            same_shape = False
        return max(self._rounding(setting.precision, dtype, same_shape=same_shape), 8 * self.noise[setting.precision])

    def _rounding(self, precision: str, dtype: torch.dtype, *, same_shape: bool = True) -> float:
        eps = max(self.eps[precision], torch.finfo(dtype).eps)
        kind = next((kind for kind in ROUNDING if torch.finfo(kind).eps >= eps), torch.bfloat16)
        share = ROUNDING[kind] * torch.finfo(kind).eps
        if same_shape:
            return share
        return share * (RESHAPED if kind is torch.float64 else 2.0**4)

    @functools.cached_property
    def shapes_follow_tokens(self) -> bool:
        """Whether other tokens change the shapes of products, and with them the rounding of float32 (a mixture of experts)."""
        roots = self.subject.modules.values()
        return any(getattr(part, "shapes_follow_tokens", False) for root in roots for part in root.modules())

    @functools.cached_property
    def has_closed_gates(self) -> bool:
        """Whether a parameter is all zero, or one that is trained has zero entries."""
        found = (parameter for module in self.subject.modules.values() for parameter in module.parameters())
        return any(not parameter.any() or (parameter.requires_grad and bool((parameter == 0).any())) for parameter in found)

    def beyond_rounding(self, setting: Setting, change: Tensor, scores: Tensor, call: Callable[[], Tensor]) -> bool:
        """Whether a difference between passes of different shapes exceeds rounding, including that of float32 buffers.

        ``call``: one of the two passes.
        """
        size, scale = float(change.max()) if change.numel() else 0.0, largest(scores)
        if size <= self.allowed(setting, scores.dtype, same_shape=False) * scale:
            return False
        if size > TABLES_EXPLAIN * scale:
            return True
        return size > 64 * self.table_rounding(setting, call) * scale

    def table_rounding(self, setting: Setting, call: Callable[[], Tensor]) -> float:
        """The effect of rounding in float32 buffers on the result of ``call``, relative to the largest logit.

        One full pass and incremental passes may read different entries of such buffers.
        """
        if setting.precision != "float64":
            return 0.0
        plain = self.run(setting, call)
        with torch.no_grad(), self._set(setting), InDouble(randomised=setting.randomised, jittered=True):
            moved = call().detach()
        self.snapshot.restore()
        return relative(plain, moved)

    def calibrate(self, ids_BT: Tensor) -> list[str]:
        """Determines whether float64 works, the lowest precision used, and the noise between identical passes."""
        notes = []
        try:
            self.scores(Setting(mode="training", precision="as trained"), ids_BT)
        except Exception:  # inference-only code may fail with gradients on; then it is run without
            self.ungraded = True
        for mode, precision in itertools.product(("evaluation", "training"), ("float64", "as trained")):
            setting = Setting(mode=mode, precision=precision)  # type: ignore[arg-type]
            first, second = self.scores(setting, ids_BT), self.scores(setting, ids_BT)
            noise = relative(first, second)
            self.noise[precision] = max(self.noise[precision], noise)
            self.eps[precision] = max(torch.finfo(first.dtype).eps, self.eps[precision] if mode == "training" else 0.0)
            if noise:
                notes.append(f"Two equal passes ({mode} mode, {precision}) differ by {noise:.1g} of the largest score.")
            if first.isnan().any():
                self.not_numbers = f"{'every' if first.isnan().all() else 'a'} score is not a number (NaN, {mode} mode)"

        def reseeded() -> Tensor:
            self.reseed(step=1)
            return self.forward(Setting(), ids_BT)

        first, again = self.scores(Setting(), ids_BT), self.run(Setting(), reseeded)
        if relative(first, again) > self.allowed(Setting(), first.dtype):
            notes.append("The scores depend on random numbers in evaluation mode too; every pass here uses the same ones.")
        self.eps["float64"] = max(self.eps["float64"], self._doubles[False].eps)
        if self.eps["float64"] > torch.finfo(torch.float64).eps:
            notes.append("Parts of this model always compute below float64, so small leaks may hide in rounding.")
        with self.around():
            if torch.is_autocast_enabled(ids_BT.device.type):
                lower = torch.get_autocast_dtype(ids_BT.device.type)
                self.eps["as trained"] = max(self.eps["as trained"], torch.finfo(lower).eps)
        return notes

    @property
    def why_unsure(self) -> str | None:
        """Why a law without findings is still not passed: NaN, or noise beyond rounding."""
        if self.not_numbers:
            return self.not_numbers
        for precision, noise in self.noise.items():
            if noise > self._rounding(precision, torch.float64):
                return f"two equal passes ({precision}) differ by {noise:.1g} of the largest score, and noise can hide a leak"
        return None

    def forward(self, setting: Setting, ids_BT: Tensor) -> Tensor:
        """The call for ``run``: whole rows by the code path of the setting."""
        if setting.masked:
            hiding = self.subject.paddings.get("anywhere") or self.subject.paddings["right"]
            return hiding(ids_BT, torch.zeros(ids_BT.shape, dtype=torch.bool, device=ids_BT.device))
        return self.subject.scores(ids_BT)

    def describe(self, setting: Setting) -> dict[str, str]:
        """The setting in words, for a finding's example."""
        words = {
            "mode": setting.mode,
            "precision": setting.precision if setting.precision == "float64" else self.trained_precision,
        }
        if setting.randomised:
            words["weights"] = "zero parameters seen as small random numbers"
        if setting.graded:
            words["path"] = "with gradients on"
        if setting.looked_at:
            words["path"] = "the reference implementation, as when looked at"
        if setting.masked:
            words["path"] = "with a mask that hides nothing"
        if self.subject.measured != "scores":
            words["measured"] = self.subject.measured
        return words

    def reseed(self, step: int = 0) -> None:
        """Every pass draws the same random numbers."""
        seed_torch(self.seed + step)
        random.seed(self.seed + step)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed((self.seed + step) % 2**32)

    @contextmanager
    def _set(self, setting: Setting) -> Iterator[None]:
        training = setting.mode == "training"
        if any(module.training != training or type(module).train is not nn.Module.train for module in self._switched):
            for module in self.subject.modules.values():
                module.train(training)
        self.reseed()
        with ExitStack() as stack:
            for tap in self.subject.taps() if setting.looked_at else ():
                stack.callback(tap.register_forward_hook(lambda module, inputs, output: None).remove)
            yield


@contextmanager
def same_generators(device: torch.device) -> Iterator[None]:
    """Restores the global random generators on exit."""
    state, numpy = random.getstate(), sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(numpy_state)


def differing(first: Tensor, second: Tensor) -> Tensor:
    """The largest difference at each position, [B, T]; bit-identical positions, nearly all, are cheap."""
    change_BT = torch.zeros(first.shape[:-1], dtype=_at_least_float32(first), device=first.device)
    unequal_BT = (first != second).any(-1)
    if unequal_BT.any():
        change_BT[unequal_BT] = difference(first[unequal_BT], second[unequal_BT]).amax(-1)
    return change_BT


def difference(first: Tensor, second: Tensor) -> Tensor:
    """Elementwise absolute difference; equal infinities and NaN in both count as 0, NaN in one as infinity. What is
    below the smallest normal number is 0 too: there nothing is left of the precision that tolerances count on."""
    wide = _at_least_float32(first)
    distance = (first.to(wide) - second.to(wide)).abs()
    distance = distance.masked_fill((first == second) | (distance < torch.finfo(wide).tiny), 0.0)
    return torch.where(distance.isnan(), torch.where(first.isnan() & second.isnan(), 0.0, torch.inf), distance)


def _at_least_float32(scores: Tensor) -> torch.dtype:
    """Upcast, so that differences of bf16 logits are not rounded."""
    return torch.promote_types(scores.dtype, torch.float32)


def largest(scores: Tensor) -> float:
    """The largest finite magnitude; never zero, so that it can be a divisor."""
    if not scores.numel():
        return 1.0
    low, high = (float(end) for end in torch.aminmax(scores))
    if math.isfinite(low) and math.isfinite(high):
        return max(-low, high, 1e-300)
    finite = scores[scores.isfinite()]
    return max(float(finite.abs().max()) if finite.numel() else 1.0, 1e-300)


def relative(first: Tensor, second: Tensor) -> float:
    """The largest difference relative to the largest magnitude."""
    return float(difference(first, second).max()) / largest(first)


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
    for (place, tensors), (_, twins) in zip(one, other):
        for tensor, again in zip(tensors, twins):
            if tensor.shape != again.shape or not tensor.numel() or torch.equal(tensor, again):
                continue
            if not tensor.is_floating_point():
                return place
            allowed = passes.allowed(setting, tensor.dtype, same_shape=same_shape)
            if float(difference(tensor, again).max()) > allowed * largest(tensor):
                return place
    return passes.subject.name


def _record(
    passes: Passes, setting: Setting, call: Callable[[], Tensor], region: Region
) -> list[tuple[str, tuple[Tensor, ...]]]:
    """Inputs and outputs of modules in execution order, each with the module at fault if it is the first difference.

    If an output differs first, that is the module itself; if an input differs first, it is the calling module.
    """
    events: list[tuple[str, tuple[Tensor, ...]]] = []
    callers: list[str] = []

    def note(place: str, values: Any) -> None:
        parts = (region.of(tensor) for tensor in _tensors(values))
        events.append((place, tuple(part.detach().clone() for part in parts if part is not None)))

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
