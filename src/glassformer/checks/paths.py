"""What really runs -> the laws on it: a compiled loss, a captured step, scores in low precision.

``check_loss`` takes the loss of a training step as it is called there, compiled or not. All targets but one are left out, so
that the sum is the nats of that one; these must not change with later tokens or with other rows, and over all targets the
probabilities must sum to one (or the target itself is seen). ``check_same`` compares a fast path with the plain one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.checks.passes import difference, largest
from glassformer.checks.report import CheckReport, Finding, Law
from glassformer.checks.verdicts import Verdicts
from glassformer.model.losses import IGNORED

LossOf = Callable[[dict[str, Tensor], Tensor | None], Tensor]

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "bfloat16": 3e-2, "float16": 1e-2}
"""Largest difference, as a share of the largest number, between two paths or two passes in each precision."""
MOST_TARGETS = 128
"""Vocabularies up to this size are gone through target by target."""


@dataclass(frozen=True)
class LossProbe:
    """One shape of batch, so that nothing is compiled anew, and what every call needs."""

    loss_of: LossOf
    rows: int
    length: int
    vocabulary: int
    device: torch.device
    noise: Tensor | None = None
    seed: int = 0

    def ids(self, generator: torch.Generator) -> Tensor:
        return torch.randint(self.vocabulary, (self.rows, self.length), generator=generator).to(self.device)

    def nats(self, ids_BT: Tensor, row: int, at: int, target: int) -> float:
        """Of one target, with gradients on as in training; every call draws the same random numbers."""
        targets_BT = torch.full_like(ids_BT, IGNORED)
        targets_BT[row, at] = target
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        with torch.enable_grad():
            return float(self.loss_of({"ids": ids_BT, "targets": targets_BT}, self.noise).detach())


def check_loss(
    loss_of: LossOf,
    *,
    rows: int,
    length: int,
    vocabulary: int,
    device: torch.device | None = None,
    laws: frozenset[str] = frozenset({"causality"}),
    precision: str = "float32",
    noise: Tensor | None = None,
    name: str = "the loss of training",
    seed: int = 0,
) -> CheckReport:
    """The laws on a loss: ``loss_of({"ids", "targets"}, noise)`` -> summed nats. ``laws``: what the objective demands."""
    started, verdicts = time.perf_counter(), Verdicts()
    probe = LossProbe(loss_of, rows, length, vocabulary, device or torch.device("cpu"), noise, seed)
    generator = torch.Generator().manual_seed(seed)
    allowed = TOLERANCE[precision]
    state = torch.get_rng_state()
    try:
        if "causality" in laws:
            verdicts.judge(
                "causality", lambda: _later_tokens(probe, generator, allowed), lambda: "one target's nats, later ids changed"
            )
        else:
            verdicts.does_not_apply("causality", "this objective may see every token")
        if rows > 1:
            verdicts.judge(
                "batch", lambda: _other_rows(probe, generator, allowed), lambda: "one target's nats, other rows changed"
            )
        if vocabulary <= MOST_TARGETS:
            verdicts.judge("labels", lambda: _labels(probe, generator, allowed), lambda: f"all {vocabulary} targets of a place")
    finally:
        torch.set_rng_state(state)
    return verdicts.report(name, time.perf_counter() - started)


def _places(probe: LossProbe) -> list[tuple[int, int]]:
    """Rows and positions that are tried: the ends and the middle of the first, a middle and the last row."""
    times = sorted({0, 1, probe.length // 2, probe.length - 2} & set(range(probe.length)))
    return [(row, at) for row in sorted({0, probe.rows // 2, probe.rows - 1}) for at in times]


def _later_tokens(probe: LossProbe, generator: torch.Generator, allowed: float) -> Finding | None:
    for row, at in _places(probe):
        if at + 1 >= probe.length:
            continue
        ids_BT, target = probe.ids(generator), int(torch.randint(probe.vocabulary, (), generator=generator))
        changed_BT = ids_BT.clone()
        changed_BT[row, at + 1 :] = (changed_BT[row, at + 1 :] + 1) % probe.vocabulary
        found = _compared(probe, "causality", ids_BT, changed_BT, row, at, target, allowed, source=at + 1)
        if found is not None:
            return found
    return None


def _other_rows(probe: LossProbe, generator: torch.Generator, allowed: float) -> Finding | None:
    for row, at in _places(probe):
        ids_BT, target = probe.ids(generator), int(torch.randint(probe.vocabulary, (), generator=generator))
        changed_BT = (ids_BT + 1) % probe.vocabulary
        changed_BT[row] = ids_BT[row]
        found = _compared(probe, "batch", ids_BT, changed_BT, row, at, target, allowed, source=0)
        if found is not None:
            return found
    return None


def _compared(
    probe: LossProbe,
    law: Law,
    ids_BT: Tensor,
    changed_BT: Tensor,
    row: int,
    at: int,
    target: int,
    allowed: float,
    *,
    source: int,
) -> Finding | None:
    first, second = probe.nats(ids_BT, row, at, target), probe.nats(changed_BT, row, at, target)
    if abs(first - second) <= allowed * max(1.0, abs(first)):
        return None
    example = {"row": row, "target": target, "tokens": ids_BT[row].tolist(), **_TRAINING}
    return Finding(law, "the loss", source, at, abs(first - second), example)


def _labels(probe: LossProbe, generator: torch.Generator, allowed: float) -> Finding | None:
    """The nats of every possible target at one place: their probabilities sum to one, unless the target itself is seen."""
    row, at = 0, probe.length // 2
    ids_BT = probe.ids(generator)
    nats = torch.tensor([probe.nats(ids_BT, row, at, target) for target in range(probe.vocabulary)], dtype=torch.float64)
    missing = abs(float((-nats).exp().sum()) - 1.0)
    if missing <= 10 * allowed:
        return None
    return Finding("labels", "the loss", at, at, missing, {"row": row, "tokens": ids_BT[row].tolist(), **_TRAINING})


_TRAINING = {"mode": "training", "precision": "as trained", "measured": "nats"}


def check_same(
    plain: Callable[[], Mapping[str, Tensor]],
    fast: Callable[[], Mapping[str, Tensor]],
    *,
    precision: str = "float32",
    name: str = "the fast path",
) -> CheckReport:
    """Both paths give the same named tensors (loss, grad_norm, scores) within the stated tolerance of the precision."""
    started, verdicts, allowed = time.perf_counter(), Verdicts(), TOLERANCE[precision]

    def compare() -> Finding | None:
        expected, given = plain(), fast()
        for key, tensor in expected.items():
            distance = difference(tensor.detach().float(), given[key].detach().float())
            if float(distance.max()) > allowed * largest(tensor.detach().float()):
                at = int(distance.flatten().argmax())
                example: dict[str, Any] = {"measured": key, "precision": precision, "mode": "training"}
                return Finding("path", name, 0, at, float(distance.max()), example)
        return None

    verdicts.judge("path", compare, lambda: f"within {allowed:g} of the largest number")
    return verdicts.report(name, time.perf_counter() - started)
