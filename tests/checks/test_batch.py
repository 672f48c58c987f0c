"""Batch independence: leaks from before, from behind and from everywhere, shrunk to two rows and one token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.checks.check_report import Finding
from glassformer.checks.forward_passes import Passes
from glassformer.checks.laws import row_leak
from glassformer.checks.subject import Probes, callable_subject

TABLE = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))


def found(function: Any) -> Finding | None:
    subject = callable_subject(function, vocabulary=7, context=9)
    return row_leak(Passes(subject), Probes(subject))


def test_honest_function() -> None:
    assert found(lambda ids_BT: TABLE[ids_BT].cumsum(1)) is None
    assert (
        found(lambda ids_BT: TABLE[ids_BT].mean(1, keepdim=True).expand(-1, ids_BT.shape[1], -1)) is None
    )  # the future is no row


@pytest.mark.parametrize("shift", [1, -1])
def test_neighbouring_row(shift: int) -> None:
    finding = found(lambda ids_BT: TABLE[ids_BT] + 1e-6 * TABLE[ids_BT.roll(shift, dims=0)])
    assert finding is not None
    assert finding.law == "batch"
    assert len(finding.example["rows"]) == 2
    assert finding.example["row"] != finding.example["changed_row"]
    assert finding.from_position == finding.to_position


def test_only_the_first_row_sees_the_others() -> None:
    def first(ids_BT: Tensor) -> Tensor:
        scores = TABLE[ids_BT].clone()
        scores[0] += 1e-6 * TABLE[ids_BT].mean(0)
        return scores

    finding = found(first)
    assert finding is not None
    assert finding.example["row"] == 0


def test_only_in_full_rows() -> None:
    finding = found(lambda ids_BT: TABLE[ids_BT] + (ids_BT.shape[1] == 9) * TABLE[ids_BT].mean(0))
    assert finding is not None
    assert len(finding.example["rows"][0]) == 9


def test_the_number_of_rows_alone() -> None:
    finding = found(lambda ids_BT: TABLE[ids_BT] / len(ids_BT))
    assert finding is not None
    assert finding.example["found_by"] == "the row alone"
