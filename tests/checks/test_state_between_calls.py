"""State between calls: what remembers earlier rows is found, with the rows that show it; what only looks so is not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checks.check_report import Finding
from glassformer.checks.forward_passes import Passes
from glassformer.checks.laws import state_between_calls
from glassformer.checks.subject import Probes, callable_subject

VOCABULARY, CONTEXT = 7, 9
TABLE = torch.randn(VOCABULARY, 4, generator=torch.Generator().manual_seed(0))


def found(function: Any) -> Finding | None:
    subject = callable_subject(function, vocabulary=VOCABULARY, context=CONTEXT)
    passes = Passes(subject)
    with passes.undisturbed():
        return state_between_calls(passes, Probes(subject))


class Remembers(nn.Module):
    """Adds a little of what the last call read; ``only_in_training`` is what running statistics do."""

    def __init__(self, *, only_in_training: bool = False) -> None:
        super().__init__()
        self.table, self.inner, self.only_in_training = nn.Embedding.from_pretrained(TABLE), nn.Identity(), only_in_training
        self.register_buffer("last", torch.zeros(4))

    def forward(self, ids_BT: Tensor) -> Tensor:
        scores_BTV = self.inner(self.table(ids_BT)) + 1e-3 * self.last
        if self.training or not self.only_in_training:
            self.last.copy_(self.table(ids_BT).mean((0, 1)))
        return scores_BTV


class RemembersTheLongest(nn.Module):
    """The table of a length that was seen is kept and used for shorter rows."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0

    def forward(self, ids_BT: Tensor) -> Tensor:
        self.longest = max(self.longest, ids_BT.shape[1])
        return TABLE[ids_BT] / self.longest


def test_what_has_no_memory_passes() -> None:
    assert found(lambda ids_BT: TABLE[ids_BT].cumsum(1)) is None


def test_memory_of_the_last_call_is_found_with_its_rows() -> None:
    model = Remembers()
    finding = found(model.eval())
    assert finding is not None
    assert finding.law == "state"
    rows, before = torch.tensor(finding.example["rows"]), torch.tensor(finding.example["read_before"])
    first = model(rows)
    model.last.zero_()
    model(before)
    again = model(rows)
    change_BT = (again - first).abs().amax(-1)
    row, at = finding.example["row"], finding.to_position
    assert change_BT[row, at].item() > 0  # the example shows it without us
    assert abs(change_BT[row, at].item() - finding.size) < 1e-6


def test_the_model_is_left_as_it_was() -> None:
    model = Remembers().eval()
    found(model)
    assert model.last.tolist() == [0.0] * 4


def test_statistics_of_training_are_no_break() -> None:
    assert found(Remembers(only_in_training=True).eval()) is None


def test_a_longer_row_that_changes_shorter_ones_is_found() -> None:
    finding = found(RemembersTheLongest().eval())
    assert finding is not None
    assert len(finding.example["read_before"][0]) > len(finding.example["rows"][0])
