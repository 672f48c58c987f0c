"""Locating: regions of activations by their axes, and the first module where two passes part."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from glassformer.checks.passes import Passes, Region, Setting, locate
from glassformer.checks.subject import callable_subject

REGION = Region(rows=2, length=5, row=1, start=0, stop=3)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 5, 7), (1, 3, 7)),
        ((2, 3, 5, 7), (1, 3, 3, 7)),  # heads between
        ((2, 3, 5, 5), (1, 3, 3, 3)),  # queries and keys
        ((5, 2, 7), (3, 1, 7)),  # time first
        ((10, 7), (1, 3, 7)),  # rows and time in one axis
        ((6, 5, 7), (3, 3, 7)),  # rows and heads in one axis
        ((1, 5, 7), (1, 3, 7)),  # the same for all rows
        ((2, 7), None),  # no time
    ],
)
def test_region_of_an_activation(shape: tuple[int, ...], expected: tuple[int, ...] | None) -> None:
    part = REGION.of(torch.zeros(shape))
    assert (None if part is None else tuple(part.shape)) == expected


def test_region_takes_the_right_row_and_places() -> None:
    tensor = torch.arange(10).reshape(2, 5)
    assert REGION.of(tensor.unsqueeze(-1)).flatten().tolist() == [5, 6, 7]  # type: ignore[union-attr]
    assert REGION.of(tensor.T.unsqueeze(-1)).flatten().tolist() == [5, 6, 7]  # type: ignore[union-attr]
    assert REGION.of(torch.arange(10).unsqueeze(-1)).flatten().tolist() == [5, 6, 7]  # type: ignore[union-attr]


class Shift(nn.Module):
    def forward(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.roll(-1, dims=1)


class Model(nn.Module):
    def __init__(self, *, between: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.first = nn.Sequential(nn.Linear(6, 6), nn.Identity() if between else Shift())
        self.last = nn.Linear(6, 6)
        self.between = between

    def forward(self, ids_BT: Tensor) -> Tensor:
        x_BTD = self.first(self.embedding(ids_BT))
        return self.last(x_BTD.roll(-1, dims=1) if self.between else x_BTD)


@pytest.mark.parametrize(("between", "place"), [(False, "first.1"), (True, "Model")])
def test_first_module_to_differ_or_the_one_that_called(between: bool, place: str) -> None:
    model = Model(between=between)
    passes = Passes(callable_subject(model, vocabulary=7, context=5))
    ids_1T, changed_1T = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 2, 3, 5]])
    region = Region(1, 4, 0, 0, 3)
    assert locate(passes, Setting(), lambda: model(ids_1T), lambda: model(changed_1T), region, region) == place


def test_passes_that_agree_within_their_regions_end_with_the_subject_itself() -> None:
    model = Model(between=False)
    passes = Passes(callable_subject(model, vocabulary=7, context=5))
    ids_1T = torch.tensor([[1, 2, 3, 4]])
    region = Region(1, 4, 0, 0, 3)
    assert locate(passes, Setting(), lambda: model(ids_1T), lambda: model(ids_1T), region, region) == "Model"
