"""1.5-entmax: values by hand, the root that bisection finds, and the gradient of the closed form."""

from __future__ import annotations

import pytest
import torch

from glassformer.model.dims import Dims
from glassformer.model.normalisers.entmax import EntmaxConfig, entmax15


def test_by_hand() -> None:
    torch.testing.assert_close(entmax15(torch.tensor([5.0, 5.0, 5.0, 5.0])), torch.full((4,), 0.25))
    # s/2 = 0 and 0.4: t with t^2 + (0.4 - t)^2 = 1 below 0 is -(sqrt(0.46) - 0.2)
    threshold = 0.2 - 0.46**0.5
    torch.testing.assert_close(entmax15(torch.tensor([0.0, 0.8])), torch.tensor([threshold**2, (0.4 - threshold) ** 2]))
    torch.testing.assert_close(entmax15(torch.tensor([0.0, 4.0])), torch.tensor([0.0, 1.0]))  # sparse


def bisection(scores: torch.Tensor) -> torch.Tensor:
    z = scores / 2
    low, high = z.amax(-1, keepdim=True) - 1, z.amax(-1, keepdim=True)
    for _ in range(80):
        middle = (low + high) / 2
        over = (z - middle).relu().square().sum(-1, keepdim=True) >= 1
        low, high = torch.where(over, middle, low), torch.where(over, high, middle)
    return (z - low).relu().square()


@pytest.mark.parametrize("keys", [1, 2, 17, 3000])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 30.0])
def test_newton_is_bisection(keys: int, spread: float, rng) -> None:
    scores = spread * torch.randn(3, keys, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(entmax15(scores), bisection(scores), atol=1e-12, rtol=0)


def test_gradient(rng) -> None:
    scores = torch.randn(2, 6, generator=rng, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(entmax15, (scores,))


def test_who_sees_nothing_gets_zeros_and_finite_gradients() -> None:
    scores = torch.randn(1, 1, 2, 3, requires_grad=True)
    normaliser = EntmaxConfig().build(Dims(width=12, heads=2, layers=1, context=7, vocabulary=11))
    pattern = normaliser(scores, torch.tensor([[False, False, False], [True, True, False]]))
    pattern.square().sum().backward()
    assert not pattern[0, 0, 0].any()
    assert scores.grad.isfinite().all()
