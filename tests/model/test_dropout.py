"""Dropout: off in evaluation, right in the mean, and its arithmetic masks are as good as independent."""

from __future__ import annotations

import math

import torch
from torch.testing import assert_close

from glassformer.model.dropout import Dropout, DropoutMasks

SHARE = 0.2


def mask(seed: int, draw: int, *shape: int) -> torch.Tensor:
    noise = DropoutMasks(torch.tensor(seed))
    kept = torch.empty(0)
    for _ in range(draw):
        kept = noise.keep_mask(torch.empty(shape), SHARE)
    return kept.double()


def correlation(first: torch.Tensor, second: torch.Tensor) -> float:
    """In standard errors: about normal with deviation 1 where the two have nothing to do with each other."""
    return float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1]) * math.sqrt(first.numel())


def test_evaluation_and_no_dropout_change_nothing() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x, DropoutMasks(torch.tensor(1))) is x


def test_what_is_kept_is_scaled_up() -> None:
    for noise in (None, DropoutMasks(torch.tensor(4))):
        y = Dropout(SHARE)(torch.full((100, 30), 3.0), noise)
        assert_close(y.unique(), torch.tensor([0.0, 3.0 / (1 - SHARE)]))


def test_the_share_is_right_for_every_seed() -> None:
    shares = torch.stack([mask(seed, 1, 400).mean() for seed in range(2000)])
    assert abs(float(shares.mean()) - (1 - SHARE)) < 4 * math.sqrt(SHARE * (1 - SHARE) / 800_000)
    assert_close(float(shares.std()), math.sqrt(SHARE * (1 - SHARE) / 400), rtol=0.06, atol=0.0)


def test_masks_of_other_draws_seeds_and_places_are_unrelated() -> None:
    shape = (20, 50, 96)
    first = mask(7, 1, *shape)
    for other in (mask(7, 2, *shape), mask(7, 3, *shape), mask(8, 1, *shape), mask(7 + 2**16, 1, *shape)):
        assert abs(correlation(first, other)) < 4
    flat = first.flatten()
    for lag in (1, 2, 4, 32, 96, 50 * 96, 2**14):
        assert abs(correlation(flat[:-lag], flat[lag:])) < 4.5


def test_the_same_number_gives_the_same_masks() -> None:
    assert torch.equal(mask(3, 5, 7, 11), mask(3, 5, 7, 11))
    assert not torch.equal(mask(3, 5, 7, 11), mask(3, 4, 7, 11))


def test_the_gradient_passes_where_the_number_did() -> None:
    x = torch.ones(40, 9, requires_grad=True)
    y = Dropout(SHARE)(x, DropoutMasks(torch.tensor(2)))
    y.sum().backward()
    assert x.grad is not None
    assert_close(x.grad, y.detach())
