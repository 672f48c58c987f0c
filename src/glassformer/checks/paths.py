"""The laws on the code that really runs: a compiled loss, a CUDA-graph step, logits in low precision.

``check_loss`` takes the loss of a training step as it is called there, compiled or not, and a batch of the run. Targets of
-100 are ignored, so the loss can be restricted to a few positions: it must not change with later tokens, other rows or
padding; losses of disjoint positions must add up; and the probabilities of all targets at a position must sum to one (or the
model sees its target). ``check_same`` compares a fast path with the eager one. Every batch has the shape and the strides of
the given one, so that nothing is recompiled.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.checks.check_report import CheckReport, Finding, Law
from glassformer.checks.law_results import Verdicts
from glassformer.checks.passes import difference, largest, same_generators
from glassformer.model.losses import IGNORED

LossOf = Callable[[dict[str, Tensor], Tensor | None], Tensor]

SAME_SHAPE = {"float32": 1e-4, "bf16": 1e-2}
"""Relative tolerance of a loss that should not change: same shapes, same kernels."""
OTHER_PATH = {"float32": 1e-4, "bf16": 3e-2}
"""Relative tolerance between two code paths."""
MOST_TARGETS = 32
"""Up to this vocabulary, the probabilities of all targets are summed."""
ROUNDS = 3
"""Random batches for each law; in each, every row is tested at another position."""


@dataclass(frozen=True)
class LossProbe:
    """A loss with an example batch (``ids``, and ``targets`` [B, T] or ``labels`` [B]) that gives the shapes."""

    loss_of: LossOf
    batch: Mapping[str, Tensor]
    vocabulary: int
    outputs: int
    dropout_seed: Tensor | None = None
    smoothing: float = 0.0
    seed: int = 0

    @property
    def asked(self) -> str:
        return "targets" if "targets" in self.batch else "labels"

    @property
    def rows(self) -> int:
        return self.batch["ids"].shape[0]

    @property
    def length(self) -> int:
        return self.batch["ids"].shape[1]

    def random_ids(self, generator: torch.Generator) -> Tensor:
        return torch.randint(self.vocabulary, (self.rows, self.length), generator=generator)

    def others(self, ids_BT: Tensor, generator: torch.Generator) -> Tensor:
        """Other ids at every position."""
        return (ids_BT + torch.randint(1, self.vocabulary, ids_BT.shape, generator=generator)) % self.vocabulary

    def random_targets(self, generator: torch.Generator) -> Tensor:
        return torch.randint(self.outputs, tuple(self.batch[self.asked].shape), generator=generator)

    def nats(self, ids_BT: Tensor, targets: Tensor, **more: Tensor) -> float:
        """The summed loss, with gradients on as in training; every call draws the same random numbers."""
        values = {"ids": ids_BT, self.asked: targets, **more}
        tensors = {name: _with_layout_of(tensor, values.get(name, tensor)) for name, tensor in self.batch.items()}
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        with torch.enable_grad():
            nats = float(self.loss_of(tensors, self.dropout_seed).detach())
        if not math.isfinite(nats):
            raise ArithmeticError(f"the loss of random tokens is {nats}")
        return nats


def _with_layout_of(tensor: Tensor, values: Tensor) -> Tensor:
    """``values`` with the same strides and offset, on which a compiler specialises besides the shape."""
    storage = tensor.untyped_storage().clone()
    twin = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    twin.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return twin.copy_(values)


def check_loss(
    loss_of: LossOf,
    batch: Mapping[str, Tensor],
    *,
    vocabulary: int,
    outputs: int | None = None,
    laws: frozenset[str] = frozenset({"causality"}),
    precision: str = "float32",
    dropout_seed: Tensor | None = None,
    smoothing: float = 0.0,
    name: str = "the loss of training",
    seed: int = 0,
) -> CheckReport:
    """The laws on a loss: ``loss_of({"ids", ...}, dropout_seed)`` -> summed nats. ``laws``: what the objective demands."""
    started, verdicts, allowed = time.perf_counter(), Verdicts(), SAME_SHAPE[precision]
    probe = LossProbe(loss_of, batch, vocabulary, outputs or vocabulary, dropout_seed, smoothing, seed)
    generator = torch.Generator().manual_seed(seed)
    if "ids" not in batch or not {"targets", "labels"} & batch.keys():
        law: Law
        for law in ("batch", "labels"):
            verdicts.cannot_tell(law, "batches of this objective have no ids with targets or labels")
        return verdicts.report(name, time.perf_counter() - started)
    ways: dict[Law, tuple[Callable[[], Finding | None], str]] = {}
    if "causality" in laws and probe.asked == "targets" and probe.length > 1:
        ways["causality"] = (lambda: _check_later_tokens(probe, name, generator, allowed), "nats, later ids changed")
    if probe.rows > 1:
        ways["batch"] = (lambda: _check_other_rows(probe, name, generator, allowed), "nats, other rows changed")
    if "hidden" in batch and probe.length > 1:
        ways["padding"] = (lambda: _check_padding(probe, name, generator, allowed), "nats, hidden ids changed")
    ways["labels"] = (lambda: _check_targets(probe, name, generator, allowed), "nats of places apart and together")
    with same_generators(batch["ids"].device):
        for law, (test, way) in ways.items():
            verdicts.judge(law, test, functools.partial("{}: {}".format, name, way))
    return verdicts.report(name, time.perf_counter() - started)


def _check_later_tokens(probe: LossProbe, name: str, generator: torch.Generator, allowed: float) -> Finding | None:
    """The loss at one position of every row, with every later token replaced."""
    firsts = [0, probe.length - 2, 1, probe.length // 2]
    for turn in range(ROUNDS):
        at_B1 = torch.randint(probe.length - 1, (probe.rows, 1), generator=generator)
        for row, at in enumerate(firsts[turn:] + firsts[:turn]):
            if row < probe.rows and 0 <= at < probe.length - 1:
                at_B1[row] = at
        ids_BT, targets_BT, times_T = (
            probe.random_ids(generator),
            probe.random_targets(generator),
            torch.arange(probe.length),
        )
        changed_BT = torch.where(times_T > at_B1, probe.others(ids_BT, generator), ids_BT)
        targets_BT = targets_BT.where(times_T == at_B1, torch.tensor(IGNORED))
        if _loss_change(probe, (ids_BT, changed_BT), targets_BT, allowed) is None:
            continue
        for row in range(probe.rows):  # only its own later tokens: other rows are tested separately
            alone_BT, mine_B1 = torch.full_like(targets_BT, IGNORED), torch.arange(probe.rows)[:, None] == row
            alone_BT[row] = targets_BT[row]
            size = _loss_change(probe, (ids_BT, changed_BT.where(mine_B1, ids_BT)), alone_BT, allowed)
            if size is not None:
                at = int(at_B1[row])
                return Finding("causality", name, at + 1, at, size, _example(probe, row, ids_BT))
    return None


def _check_other_rows(probe: LossProbe, name: str, generator: torch.Generator, allowed: float) -> Finding | None:
    """Every second row is replaced; the loss of the others."""
    for turn in range(2):
        kept_B = torch.arange(probe.rows) % 2 == turn
        ids_BT, targets = probe.random_ids(generator), probe.random_targets(generator)
        changed_BT = ids_BT.where(kept_B[:, None], probe.others(ids_BT, generator))
        asked = targets.where(kept_B if targets.ndim == 1 else kept_B[:, None], torch.tensor(IGNORED))
        size = _loss_change(probe, (ids_BT, changed_BT), asked, allowed)
        if size is not None:
            return Finding("batch", name, 0, 0, size, _example(probe, turn, ids_BT))
    return None


def _check_padding(probe: LossProbe, name: str, generator: torch.Generator, allowed: float) -> Finding | None:
    """Other ids at masked positions: the last quarter of every row, then also those that the batch masks itself."""
    quarter_BT = (torch.arange(probe.length) >= probe.length - max(1, probe.length // 4)).expand(probe.rows, -1)
    for hidden_BT in (quarter_BT, quarter_BT | probe.batch["hidden"].cpu()):
        if hidden_BT.all(1).any():
            continue
        ids_BT, targets = probe.random_ids(generator), probe.random_targets(generator)
        changed_BT = ids_BT.where(~hidden_BT, probe.others(ids_BT, generator))
        size = _loss_change(probe, (ids_BT, changed_BT), targets, allowed, hidden=hidden_BT)
        if size is not None:
            return Finding("padding", name, probe.length - 1, 0, size, _example(probe, 0, ids_BT))
    return None


def _check_targets(probe: LossProbe, name: str, generator: torch.Generator, allowed: float) -> Finding | None:
    """Losses of two sets of positions add up; the probabilities of all targets at one position sum to one."""
    ids_BT, targets = probe.random_ids(generator), probe.random_targets(generator)
    first = torch.arange(targets.numel()).view(targets.shape) % 2 == 0
    nothing = torch.tensor(IGNORED)
    parts = [probe.nats(ids_BT, targets.where(chosen, nothing)) for chosen in (first, ~first)]
    whole = probe.nats(ids_BT, targets)
    if not abs(whole - sum(parts)) <= allowed * max(1.0, abs(whole)):
        return Finding("labels", name, 0, 0, abs(whole - sum(parts)), _example(probe, 0, ids_BT))
    if probe.outputs > MOST_TARGETS:
        return None
    place = (0, probe.length // 2)[: targets.ndim]
    nats = torch.empty(probe.outputs, dtype=torch.float64)
    for target in range(probe.outputs):
        asked = torch.full_like(targets, IGNORED)
        asked[place] = target
        nats[target] = probe.nats(ids_BT, asked)
    nats = (nats - probe.smoothing * nats.mean()) / (1 - probe.smoothing)  # label smoothing mixes the mean into every target
    missing = abs(float((-nats).exp().sum()) - 1.0)
    return (
        None if missing <= 10 * allowed else Finding("labels", name, place[-1], place[-1], missing, _example(probe, 0, ids_BT))
    )


def _loss_change(probe: LossProbe, ids: tuple[Tensor, Tensor], targets: Tensor, allowed: float, **more: Tensor) -> float | None:
    """The relative difference of the loss between two batches of ids; None within rounding error."""
    first, second = (probe.nats(one, targets, **more) for one in ids)
    return None if abs(first - second) <= allowed * max(1.0, abs(first)) else abs(first - second)


def _example(probe: LossProbe, row: int, ids_BT: Tensor) -> dict[str, Any]:
    example = {"row": row, "rows": probe.rows, "tokens": ids_BT[row].tolist()}
    return {**example, "mode": "training", "precision": "as trained", "measured": "nats"}


def check_same(
    plain: Callable[[], Mapping[str, Tensor]],
    fast: Callable[[], Mapping[str, Tensor]],
    *,
    allowed: float | None = None,
    spread: Mapping[str, float] | None = None,
    precision: str = "float32",
    name: str = "the fast path",
) -> CheckReport:
    """Compares named tensors (loss, grad_norm, scores) of two code paths within a relative tolerance.

    ``spread``: additional tolerance where the paths draw different random numbers.
    """
    started, verdicts, share = time.perf_counter(), Verdicts(), OTHER_PATH[precision] if allowed is None else allowed

    def compare() -> Finding | None:
        expected, given = plain(), fast()
        for key, tensor in expected.items():
            distance = difference(tensor.detach().float(), given[key].detach().float())
            more = 0.0 if spread is None else spread[key]
            if not float(distance.max()) <= share * largest(tensor.detach().float()) + more:
                at = int(distance.flatten().argmax())
                example: dict[str, Any] = {"measured": key, "precision": precision, "mode": "training"}
                return Finding("path", name, 0, at, float(distance.max()), example)
        return None

    verdicts.judge("path", compare, lambda: f"{name} within {share:.2g} of the largest number")
    return verdicts.report(name, time.perf_counter() - started)
