"""Passes: modes, precisions and randomness as asked; two passes of one setting are the same; tolerances by precision."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import Tensor, nn

from glassformer.checks.forward_passes import Passes, Region, Setting, difference, differing, largest, locate, relative
from glassformer.checks.subject import callable_subject

IDS = torch.tensor([[1, 2, 3], [4, 0, 1]])


SEEN: list[tuple[bool, torch.dtype]] = []
"""Not in the module: what a pass writes there is put back."""


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(5, 4), nn.Dropout(0.5)

    def forward(self, ids_BT: Tensor) -> Tensor:
        x = self.dropout(self.embedding(ids_BT))
        SEEN.append((self.training, x.dtype))
        return x


def passes(**keywords: object) -> tuple[Noisy, Passes]:
    module = Noisy()
    return module, Passes(callable_subject(module, vocabulary=5, context=3), **keywords)  # type: ignore[arg-type]


def test_settings_are_what_the_model_sees() -> None:
    _, some = passes()
    SEEN.clear()
    for setting in (Setting(), Setting(mode="training"), Setting(mode="training", precision="as trained")):
        some.scores(setting, IDS)
    assert [(False, torch.float64), (True, torch.float64), (True, torch.float32)] == SEEN


def test_dropout_falls_on_the_same_places_in_both_passes() -> None:
    _, some = passes()
    setting = Setting(mode="training")
    first, second = some.scores(setting, IDS), some.scores(setting, IDS)
    assert torch.equal(first, second)
    assert (first == 0).any()


def test_gradients_are_those_of_the_tokens_and_leave_none_behind() -> None:
    module, some = passes()
    sizes_BT = some.gradients(Setting(), IDS, lambda scores: scores[0, 1].sum())
    assert sizes_BT is not None
    assert sizes_BT.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert module.embedding.weight.grad is None


def test_gradients_of_an_embedding_with_a_backward_pass_of_its_own() -> None:
    class Rows(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, weight: Tensor, ids: Tensor) -> Tensor:
            return nn.functional.embedding(ids, weight)

    class Own(nn.Embedding):
        def forward(self, ids_BT: Tensor) -> Tensor:
            return Rows.apply(self.weight, ids_BT)

    some = Passes(callable_subject(nn.Sequential(Own(5, 4)), vocabulary=5, context=3))
    sizes_BT = some.gradients(Setting(), IDS, lambda scores: scores[0, 1].sum())
    assert sizes_BT is not None
    assert sizes_BT.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_gradients_are_none_where_the_tokens_cannot_be_found() -> None:
    subject = callable_subject(lambda ids_BT: ids_BT.float().cumsum(1).unsqueeze(-1), vocabulary=5, context=3)
    assert Passes(subject).gradients(Setting(), IDS, lambda scores: scores.sum()) is None


def test_surroundings_of_training_are_used_as_trained_only() -> None:
    entered = []

    @contextlib.contextmanager
    def around():  # type: ignore[no-untyped-def]
        entered.append(True)
        yield

    _, some = passes(around=around)
    for setting, times in (Setting(mode="training"), 0), (Setting(mode="training", precision="as trained"), 1):
        some.scores(setting, IDS)
        assert len(entered) == times


def test_allowed_differences_grow_with_the_rounding() -> None:
    _, some = passes()
    assert some.allowed(Setting(), torch.float64) < 1e-11
    assert some.allowed(Setting(), torch.float64) < some.allowed(Setting(), torch.float64, same_shape=False) < 1e-8
    assert 1e-6 < some.allowed(Setting(precision="as trained"), torch.float32) < 1e-5


def test_noise_between_equal_passes_is_noticed_and_allowed() -> None:
    drawn = iter(torch.rand(100, generator=torch.Generator().manual_seed(0)))
    subject = callable_subject(lambda ids_BT: ids_BT.float().unsqueeze(-1) + 1e-3 * next(drawn), vocabulary=5, context=3)
    some = Passes(subject)
    notes = some.calibrate(IDS)
    assert any("Two equal passes" in note for note in notes)
    assert some.allowed(Setting(), torch.float64) > 1e-5


def test_scores_that_are_not_finite_are_noticed() -> None:
    subject = callable_subject(lambda ids_BT: ids_BT.float().unsqueeze(-1) * torch.nan, vocabulary=5, context=3)
    some = Passes(subject)
    some.calibrate(IDS)
    assert some.why_unsure is not None
    assert "every score is not a number" in some.why_unsure


def test_difference_of_infinities_and_nan() -> None:
    first = torch.tensor([1.0, torch.inf, torch.nan, torch.nan, -torch.inf])
    second = torch.tensor([3.0, torch.inf, torch.nan, 1.0, torch.inf])
    assert difference(first, second).tolist() == [2.0, 0.0, 0.0, torch.inf, torch.inf]
    assert relative(torch.tensor([4.0, 2.0]), torch.tensor([4.0, 1.0])) == 0.25


def test_distances_of_scores_in_bf16_are_kept_in_float32() -> None:
    first = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]], dtype=torch.bfloat16)
    second = torch.tensor([[[1.0, 2.0], [3.0, 4.03125]]], dtype=torch.bfloat16)
    assert differing(first, second).tolist() == [[0.0, 0.03125]]
    assert differing(first, second).dtype == difference(first, second).dtype == torch.float32
    assert differing(first.double(), second.double()).dtype == torch.float64


def test_differing_is_the_largest_distance_at_each_place() -> None:
    first = torch.tensor([[[1.0, 2.0], [3.0, torch.nan], [torch.inf, 0.0]], [[1.0, 1.0], [5.0, 1.0], [0.0, torch.nan]]])
    second = torch.tensor([[[1.0, 2.0], [3.0, torch.nan], [torch.inf, 0.5]], [[1.0, 4.0], [3.0, 2.0], [0.0, 0.0]]])
    assert differing(first, second).tolist() == [[0.0, 0.0, 0.5], [3.0, 2.0, torch.inf]]


def test_largest_is_that_of_the_finite_numbers() -> None:
    assert largest(torch.tensor([1.0, -7.0, 3.0])) == 7.0
    assert largest(torch.tensor([1.0, -torch.inf, torch.nan, -3.0])) == 3.0
    assert largest(torch.tensor([torch.nan])) == 1.0
    assert largest(torch.zeros(0)) == 1.0
    assert largest(torch.zeros(2)) > 0


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


def test_numbers_too_small_to_have_a_precision_do_not_differ() -> None:
    """A model without residuals may give scores of 1e-45, whose last bit is all there is of them."""
    assert difference(torch.tensor([2.8e-45, 1e-38, 3.0e-38]), torch.tensor([1.4e-45, 0.0, 0.0])).tolist() == [
        0.0,
        0.0,
        pytest.approx(3e-38),
    ]
