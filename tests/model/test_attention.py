"""The mathematics of attention: values worked out on paper, and its laws."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.model.attention import attend, attention_pattern, attention_scores, causal_mask

B, H, T, S, E = 2, 3, 5, 7, 4  # no two sizes equal: a swapped axis cannot pass unseen


def test_scores_by_hand() -> None:
    # one query (2, 0, 0, 0), head width 4, so the factor is 1/2
    q, k = torch.tensor([[2.0, 0, 0, 0]]), torch.tensor([[3.0, 1, 0, 0], [0, 5, 0, 0]])
    torch.testing.assert_close(attention_scores(q, k), torch.tensor([[3.0, 0.0]]))
    torch.testing.assert_close(attention_scores(q, k, scale=1.0), torch.tensor([[6.0, 0.0]]))


def test_attention_by_hand() -> None:
    # scores ln 3 and 0: the pattern is 3/4 and 1/4; of the values (4, 0) and (0, 8) that makes (3, 2)
    q, k = torch.tensor([[2 * math.log(3), 0, 0, 0]]), torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0]])
    v = torch.tensor([[4.0, 0.0], [0.0, 8.0]])
    torch.testing.assert_close(attention_pattern(attention_scores(q, k)), torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(attend(q, k, v), torch.tensor([[3.0, 2.0]]))
    only_second = torch.tensor([[False, True]])
    torch.testing.assert_close(attend(q, k, v, only_second), torch.tensor([[0.0, 8.0]]))


def test_what_a_query_sees() -> None:
    assert causal_mask(torch.tensor([0, 2]), 4).tolist() == [[True, False, False, False], [True, True, True, False]]
    assert causal_mask(torch.tensor([[0, 1], [3, 3]]), 4).shape == (2, 2, 4)


def test_every_row_of_the_pattern_is_a_mean(rng) -> None:
    scores = torch.randn(B, H, T, S, generator=rng, dtype=torch.float64)
    visible = torch.rand(B, 1, T, S, generator=rng) > 0.4
    visible[..., 0] = True
    pattern = attention_pattern(scores, visible)
    torch.testing.assert_close(pattern.sum(-1), torch.ones(B, H, T, dtype=torch.float64))
    assert (pattern >= 0).all()
    assert (pattern.masked_select(~visible.expand_as(pattern)) == 0).all()


def test_a_query_that_sees_nothing_gets_zeros_and_harmless_gradients(rng) -> None:
    q, k, v = (torch.randn(H, n, E, generator=rng, requires_grad=True) for n in (T, S, S))
    visible = torch.ones(T, S, dtype=torch.bool)
    visible[2] = False
    z = attend(q, k, v, visible)
    assert (z[:, 2] == 0).all()
    z.square().sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all()
    assert (q.grad[:, 2] == 0).all()


@pytest.mark.parametrize("shift", [-50.0, 1000.0])
def test_a_constant_added_to_all_scores_changes_nothing(rng, shift: float) -> None:
    scores = torch.randn(T, S, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(attention_pattern(scores + shift), attention_pattern(scores), rtol=1e-9, atol=1e-12)


def test_order_of_the_keys_does_not_matter(rng) -> None:
    q, k, v = (torch.randn(B, H, n, E, generator=rng, dtype=torch.float64) for n in (T, S, S))
    order = torch.randperm(S, generator=rng)
    torch.testing.assert_close(attend(q, k, v), attend(q, k[:, :, order], v[:, :, order]))
