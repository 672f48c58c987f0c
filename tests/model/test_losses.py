"""The loss: by hand, and in chunks the same as whole, gradients too."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from glassformer.model.losses import IGNORED, chunked_cross_entropy, head_cross_entropy, is_one_product, summed_cross_entropy
from glassformer.model.slots import LinearHead

B, T, D, V = 2, 5, 7, 11


def test_by_hand() -> None:
    # scores ln 1, ln 2, ln 5 give 1/8, 2/8, 5/8
    logits = torch.tensor([1.0, 2.0, 5.0]).log().expand(1, 3, 3)
    assert summed_cross_entropy(logits, torch.tensor([[0, 2, 1]])).item() == pytest.approx(
        math.log(8) + math.log(8 / 5) + math.log(4)
    )
    assert summed_cross_entropy(logits, torch.tensor([[0, IGNORED, IGNORED]])).item() == pytest.approx(math.log(8))
    assert summed_cross_entropy(logits, torch.full((1, 3), IGNORED)).item() == 0.0


@pytest.mark.parametrize("chunk", [1, 3, 4, 10, 11])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_in_chunks_the_same_as_whole(rng, chunk: int, dtype: torch.dtype) -> None:
    head = nn.Linear(D, V).to(dtype)
    targets_BT = torch.randint(V, (B, T), generator=rng)
    targets_BT[0, 1] = IGNORED
    values = torch.randn(B, T, D, generator=rng, dtype=dtype)
    answers = []
    for loss_of in (
        lambda x: summed_cross_entropy(head(x), targets_BT),
        lambda x: chunked_cross_entropy(head, x, targets_BT, chunk=chunk),
    ):
        x_BTD = values.clone().requires_grad_()
        head.zero_grad()
        loss = loss_of(x_BTD)
        loss.backward()
        answers.append((loss.detach(), x_BTD.grad, head.weight.grad.clone(), head.bias.grad.clone()))
    tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-6}
    for whole, chunked in zip(*answers):
        assert whole.dtype == chunked.dtype == dtype
        torch.testing.assert_close(chunked, whole, **tolerance)


def test_chunks_never_hold_the_whole_table(rng) -> None:
    sizes: list[int] = []
    head = nn.Linear(D, V)
    head.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    x_BTD = torch.randn(B, T, D, generator=rng, requires_grad=True)
    chunked_cross_entropy(head, x_BTD, torch.zeros(B, T, dtype=torch.long), chunk=4).backward()
    assert sizes == [4, 4, 2, 2, 4, 4]  # forward, and again, backwards, when the gradient is formed
    # (torch goes through the pieces from the last to the first)


def test_low_precision_scores_are_summed_in_float32() -> None:
    logits = torch.zeros(1, 1000, V, dtype=torch.float16)
    loss = summed_cross_entropy(logits, torch.zeros(1, 1000, dtype=torch.long))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(1000 * math.log(V), rel=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_spare_columns_only_follow_the_scores(rng, bias: bool) -> None:
    head = LinearHead(nn.Parameter(torch.randn(V, D, generator=rng)), nn.Parameter(torch.ones(V)) if bias else None)
    x_BTD = torch.randn(B, T, D, generator=rng)
    for unit, width in ((1, 11), (8, 16), (11, 11)):
        scores = head.padded(x_BTD, unit=unit)
        assert scores.shape == (B, T, width)
        torch.testing.assert_close(scores[..., :V], head(x_BTD))


def test_where_no_kernel_helps_the_definition_is_used(rng) -> None:
    x_BTD, targets_BT = torch.randn(B, T, D, generator=rng), torch.randint(V, (B, T), generator=rng)
    for head in (nn.Sequential(nn.Linear(D, V)), LinearHead(nn.Parameter(torch.randn(V, D, generator=rng)))):
        for smoothing in (0.0, 0.3):
            expected = summed_cross_entropy(head(x_BTD), targets_BT, smoothing=smoothing)
            assert torch.equal(head_cross_entropy(head, x_BTD, targets_BT, smoothing=smoothing), expected)


def test_which_heads_are_one_product() -> None:
    class Capped(LinearHead):
        def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
            return torch.tanh(super().forward(x_BTD))

    weight = nn.Parameter(torch.ones(V, D))
    plain = LinearHead(weight)
    assert is_one_product(plain)
    assert not is_one_product(Capped(weight))
    assert not is_one_product(nn.Linear(D, V))
    plain.register_forward_hook(lambda module, inputs, output: output * 2)
    assert not is_one_product(plain)
