"""Padding: rows of unequal length, padded on either side, or with hidden places anywhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.checks.check_report import Finding
from glassformer.checks.forward_passes import Passes
from glassformer.checks.laws import _masks, _unmasked, padding_leak
from glassformer.checks.subject import Probes, callable_subject

TABLE = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))


def found(padded: Any, *sides: str) -> Finding | None:
    subject = callable_subject(lambda ids_BT: TABLE[ids_BT].mean(1, keepdim=True) + TABLE[ids_BT], vocabulary=7, context=9)
    subject.paddings = dict.fromkeys(sides, padded)
    return padding_leak(Passes(subject), Probes(subject))


def mean_of_the_seen(ids_BT: Tensor, key_padding_mask_BS: Tensor) -> Tensor:
    seen = (~key_padding_mask_BS).float().unsqueeze(-1)
    return (TABLE[ids_BT] * seen).sum(1, keepdim=True) / seen.sum(1, keepdim=True).clamp(min=1) + TABLE[ids_BT]


@pytest.mark.parametrize("side", ["right", "left", "anywhere"])
def test_honest_mean(side: str) -> None:
    assert found(mean_of_the_seen, side) is None


@pytest.mark.parametrize("side", ["right", "left", "anywhere"])
def test_hidden_tokens_that_are_seen(side: str) -> None:
    finding = found(
        lambda ids_BT, key_padding_mask_BS: (
            mean_of_the_seen(ids_BT, key_padding_mask_BS) + 1e-6 * TABLE[ids_BT].mean(1, keepdim=True)
        ),
        side,
    )
    assert finding is not None
    assert (finding.law, finding.example["side"], finding.example["found_by"]) == ("padding", side, "other padding")
    row = finding.example["row"]
    assert finding.example["hidden"][row][finding.from_position] == 1
    assert finding.example["hidden"][row][finding.to_position] == 0


def test_the_amount_of_padding_alone() -> None:
    finding = found(
        lambda ids_BT, key_padding_mask_BS: (
            mean_of_the_seen(ids_BT, key_padding_mask_BS) + key_padding_mask_BS.sum(1)[:, None, None]
        ),
        "right",
    )
    assert finding is not None
    assert finding.example["found_by"] == "no padding"


def test_rows_of_unequal_length_one_of_them_whole() -> None:
    subject = callable_subject(lambda ids_BT: TABLE[ids_BT], vocabulary=7, context=9)
    probes = Probes(subject)
    assert (~_masks(probes, 9, "right")).sum(1).tolist() == [9, 8, 3]
    left = _masks(probes, 9, "left")
    assert left[2].tolist() == [True] * 6 + [False] * 3
    assert _masks(probes, 9, "anywhere")[0].tolist() == [False] * 3 + [True] + [False] * 5


def test_longest_stretch_that_is_seen() -> None:
    key_padding_mask_BS = torch.tensor([[0, 0, 1, 0, 0, 0, 1, 0]]).bool()
    region = _unmasked(key_padding_mask_BS, 0)
    assert (region.start, region.stop) == (3, 6)
