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

from glassformer.checks.check_report import CheckReport, Finding, Law, LawResults
from glassformer.checks.forward_passes import difference, largest, same_generators
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

    name: str
    loss_of: LossOf
    batch: Mapping[str, Tensor]
    vocabulary: int
    outputs: int
    allowed: float
    """Relative tolerance of a loss that should not change."""
    dropout_seed: Tensor | None
    smoothing: float
    seed: int

    @functools.cached_property
    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    @property
    def target_name(self) -> str:
        return "targets" if "targets" in self.batch else "labels"

    @property
    def rows(self) -> int:
        return self.batch["ids"].shape[0]

    @property
    def length(self) -> int:
        return self.batch["ids"].shape[1]

    def random_ids(self) -> Tensor:
        return torch.randint(self.vocabulary, (self.rows, self.length), generator=self.generator)

    def others(self, ids_BT: Tensor, name: str = "ids") -> Tensor:
        """Other ids at every position; of sources, whose vocabulary is another one, among those that the batch has."""
        if name == "source_ids":
            return ids_BT.flatten()[torch.randperm(ids_BT.numel(), generator=self.generator)].view(ids_BT.shape)
        return (ids_BT + torch.randint(1, self.vocabulary, ids_BT.shape, generator=self.generator)) % self.vocabulary

    def random_targets(self) -> Tensor:
        return torch.randint(self.outputs, tuple(self.batch[self.target_name].shape), generator=self.generator)

    def nats(self, targets: Tensor, **more: Tensor) -> float:
        """The summed loss, with gradients on as in training; every call draws the same random numbers. ``more``: other tensors
        than the batch has, by name."""
        values = {self.target_name: targets, **more}
        tensors = {name: _with_layout_of(tensor, values.get(name, tensor)) for name, tensor in self.batch.items()}
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        with torch.enable_grad():
            nats = float(self.loss_of(tensors, self.dropout_seed).detach())
        if not math.isfinite(nats):
            raise ArithmeticError(f"the loss of random tokens is {nats}")
        return nats

    def change(self, targets: Tensor, name: str, ids_BT: Tensor, changed_BT: Tensor, **more: Tensor) -> float | None:
        """The difference of the loss between two batches of ids (``name``: or sources); None within rounding error."""
        first, second = (self.nats(targets, **{name: one}, **more) for one in (ids_BT, changed_BT))
        return None if abs(first - second) <= self.allowed * max(1.0, abs(first)) else abs(first - second)

    def finding(self, law: Law, source: int, to_position: int, size: float, row: int, ids_BT: Tensor) -> Finding:
        example = {"row": row, "rows": self.rows, "tokens": ids_BT[row].tolist()}
        example |= {"mode": "training", "precision": "as trained", "measured": "nats"}
        return Finding(law, self.name, source, to_position, size, example)


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
    started, results = time.perf_counter(), LawResults()
    probe = LossProbe(
        name, loss_of, batch, vocabulary, outputs or vocabulary, SAME_SHAPE[precision], dropout_seed, smoothing, seed
    )
    if "ids" not in batch or not {"targets", "labels"} & batch.keys():
        results.cannot_tell["batch"] = "batches of this objective have no ids with targets or labels"
        results.cannot_tell["labels"] = results.cannot_tell["batch"]
        return results.report(name, time.perf_counter() - started)
    tests: dict[Law, tuple[Callable[[LossProbe], Finding | None], str]] = {}
    if "causality" in laws and probe.target_name == "targets" and probe.length > 1:
        tests["causality"] = _check_later_tokens, "nats, later ids changed"
    if probe.rows > 1:
        tests["batch"] = _check_other_rows, "nats, other rows changed"
    if "hidden" in batch and probe.length > 1:
        tests["padding"] = _check_padding, "nats, hidden ids changed"
    if "source_padding" in batch:
        tests["padding"] = (
            functools.partial(_check_padding, name="source_ids", mask="source_padding"),
            "nats, padding of the source changed",
        )
    tests["labels"] = _check_targets, "nats of places apart and together"
    with same_generators(batch["ids"].device):
        for law, (test, way) in tests.items():
            results.judge(law, functools.partial(test, probe), functools.partial("{}: {}".format, name, way))
    return results.report(name, time.perf_counter() - started)


def _check_later_tokens(probe: LossProbe) -> Finding | None:
    """The loss at one position of every row, with every later token replaced."""
    firsts = [0, probe.length - 2, 1, probe.length // 2]
    for turn in range(ROUNDS):
        at_B1 = torch.randint(probe.length - 1, (probe.rows, 1), generator=probe.generator)
        for row, at in enumerate(firsts[turn:] + firsts[:turn]):
            if row < probe.rows and 0 <= at < probe.length - 1:
                at_B1[row] = at
        ids_BT, targets_BT, times_T = probe.random_ids(), probe.random_targets(), torch.arange(probe.length)
        changed_BT = torch.where(times_T > at_B1, probe.others(ids_BT), ids_BT)
        targets_BT = targets_BT.where(times_T == at_B1, torch.tensor(IGNORED))
        if probe.change(targets_BT, "ids", ids_BT, changed_BT) is None:
            continue
        for row in range(probe.rows):  # only its own later tokens: other rows are tested separately
            alone_BT, mine_B1 = torch.full_like(targets_BT, IGNORED), torch.arange(probe.rows)[:, None] == row
            alone_BT[row] = targets_BT[row]
            size = probe.change(alone_BT, "ids", ids_BT, changed_BT.where(mine_B1, ids_BT))
            if size is not None:
                at = int(at_B1[row])
                return probe.finding("causality", at + 1, at, size, row, ids_BT)
    return None


def _check_other_rows(probe: LossProbe) -> Finding | None:
    """Every second row is replaced; the loss of the others."""
    for turn in range(2):
        unchanged_B = torch.arange(probe.rows) % 2 == turn
        ids_BT, targets = probe.random_ids(), probe.random_targets()
        targets = targets.where(unchanged_B if targets.ndim == 1 else unchanged_B[:, None], torch.tensor(IGNORED))
        size = probe.change(targets, "ids", ids_BT, ids_BT.where(unchanged_B[:, None], probe.others(ids_BT)))
        if size is None and "source_ids" in probe.batch:
            source_BS = probe.batch["source_ids"].cpu()
            changed_BS = source_BS.where(unchanged_B[:, None], probe.others(source_BS, "source_ids"))
            size = probe.change(targets, "source_ids", source_BS, changed_BS, ids=ids_BT)
        if size is not None:
            return probe.finding("batch", 0, 0, size, turn, ids_BT)
    return None


def _check_padding(probe: LossProbe, name: str = "ids", mask: str = "hidden") -> Finding | None:
    """Other ids at masked positions (of the sources: by name): the last quarter of every row, then also those that the batch
    masks itself."""
    length = probe.batch[name].shape[1]
    quarter_BT = (torch.arange(length) >= length - max(1, length // 4)).expand(probe.rows, -1)
    for hidden_BT in (quarter_BT, quarter_BT | probe.batch[mask].cpu()):
        if hidden_BT.all(1).any():
            continue
        more, targets = {"ids": probe.random_ids()}, probe.random_targets()
        ids_BT = more.pop("ids") if name == "ids" else probe.batch[name].cpu()
        changed_BT = ids_BT.where(~hidden_BT, probe.others(ids_BT, name))
        size = probe.change(targets, name, ids_BT, changed_BT, **more, **{mask: hidden_BT})
        if size is not None:
            return probe.finding("padding", length - 1, 0, size, 0, ids_BT)
    return None


def _check_targets(probe: LossProbe) -> Finding | None:
    """Losses of two sets of positions add up; the probabilities of all targets at one position sum to one."""
    ids_BT, targets = probe.random_ids(), probe.random_targets()
    weights = {"weights": torch.ones_like(probe.batch["weights"])} if "weights" in probe.batch else {}
    first = torch.arange(targets.numel()).view(targets.shape) % 2 == 0
    parts = [probe.nats(targets.where(chosen, torch.tensor(IGNORED)), ids=ids_BT, **weights) for chosen in (first, ~first)]
    whole = probe.nats(targets, ids=ids_BT, **weights)
    if not abs(whole - sum(parts)) <= probe.allowed * max(1.0, abs(whole)):
        return probe.finding("labels", 0, 0, abs(whole - sum(parts)), 0, ids_BT)
    if probe.outputs > MOST_TARGETS or probe.batch[probe.target_name].is_floating_point():  # several labels, or numbers
        return None
    place = (0, probe.length // 2)[: targets.ndim]
    nats = torch.empty(probe.outputs, dtype=torch.float64)
    for target in range(probe.outputs):
        only = torch.full_like(targets, IGNORED)
        only[place] = target
        nats[target] = probe.nats(only, ids=ids_BT, **weights)
    nats = (nats - probe.smoothing * nats.mean()) / (1 - probe.smoothing)  # label smoothing mixes the mean into every target
    missing = abs(float((-nats).exp().sum()) - 1.0)
    return None if missing <= 10 * probe.allowed else probe.finding("labels", place[-1], place[-1], missing, 0, ids_BT)


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
    started, results, share = time.perf_counter(), LawResults(), OTHER_PATH[precision] if allowed is None else allowed

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

    results.judge("path", compare, lambda: f"{name} within {share:.2g} of the largest number")
    return results.report(name, time.perf_counter() - started)
