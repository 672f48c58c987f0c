"""Cache: read in pieces against read at once, by hand-made caches with known faults."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.checks.check_report import Finding
from glassformer.checks.forward_passes import Passes
from glassformer.checks.laws import cache_fault
from glassformer.checks.subject import Probes, callable_subject

TABLE = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
CONTEXT = 9


class RunningSum:
    """The cache of a causal sum. ``spoil`` changes what is kept, given how many tokens were read."""

    def __init__(self, spoil: Callable[[Tensor, int], Tensor] = lambda total, read: total) -> None:
        self.total, self.read_so_far, self.spoil = torch.zeros(1, 1, 5), torch.zeros(1, dtype=torch.long), spoil

    def read(self, ids_BT: Tensor, lengths: list[int] | None = None) -> Tensor:
        scores = self.total + TABLE[ids_BT].cumsum(1)
        new = torch.tensor(lengths or [ids_BT.shape[1]] * len(ids_BT))
        last = scores[torch.arange(len(ids_BT)), new - 1].unsqueeze(1)
        self.read_so_far = self.read_so_far + new
        self.total = self.spoil(last, int(self.read_so_far.max()))
        return scores


def found(make: Callable[[], RunningSum], *, ragged: bool = False) -> Finding | None:
    subject = callable_subject(lambda ids_BT: TABLE[ids_BT].cumsum(1), vocabulary=7, context=CONTEXT)
    subject.new_cache, subject.ragged = make, ragged
    return cache_fault(Passes(subject), Probes(subject))


def test_honest_cache() -> None:
    assert found(RunningSum, ragged=True) is None


def test_fault_at_the_first_step() -> None:
    finding = found(lambda: RunningSum(lambda total, read: 1.001 * total))
    assert finding is not None
    assert (finding.law, finding.from_position, finding.to_position) == ("cache", 1, 1)
    assert finding.example["pieces"] == [1] * 7


def test_fault_only_at_the_last_place_of_a_full_context() -> None:
    finding = found(lambda: RunningSum(lambda total, read: total + (read == CONTEXT - 1)))
    assert finding is not None
    assert finding.to_position == CONTEXT - 1


def test_fault_only_in_rows_shorter_than_their_neighbours() -> None:
    class Padded(RunningSum):
        def read(self, ids_BT: Tensor, lengths: list[int] | None = None) -> Tensor:
            return super().read(ids_BT)  # counts the padding as read

    assert found(Padded) is None
    finding = found(Padded, ragged=True)
    assert finding is not None
    assert finding.example["row"] == 1
