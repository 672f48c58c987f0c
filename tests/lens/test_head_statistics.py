"""Readouts by hand: rows, rollout, entropy, distance, weights at a distance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from glassformer.lens import head_statistics
from glassformer.lens.capture import Places
from glassformer.lens.head_statistics import head_scores, repeated_rows

ONE_BACK = np.array([[[[1, 0, 0], [1, 0, 0], [0, 1, 0]]]], float)  # one layer, one head, three tokens
EVEN = np.array([[[[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]]])
CAUSAL = np.tril(np.ones((3, 3), bool))


def test_rows_in_order() -> None:
    assert head_statistics.check_rows(EVEN, CAUSAL) == []


def test_a_row_that_does_not_sum_to_one() -> None:
    assert head_statistics.check_rows(EVEN * [1, 1, 0.5], CAUSAL) == ["Row 2 of layer 0, head 0 sums to 0.75 instead of 1."]
    assert "sums to nan" in head_statistics.check_rows(EVEN * [1, np.nan, 1], CAUSAL)[0]


def test_weight_where_nothing_may_be_seen() -> None:
    future = EVEN.copy()
    future[0, 0, 0] = [0.5, 0.0, 0.5]
    assert head_statistics.check_rows(future, CAUSAL) == [
        "Layer 0, head 0: position 0 gives 0.5 to position 2, which it may not see."
    ]


def test_a_row_that_sees_nothing_is_zero() -> None:
    hidden = np.array([True, False, False])
    visible = head_statistics.visible_keys(3, 3, causal=True, hidden=hidden)
    assert visible.tolist() == [[False, False, False], [False, True, False], [False, True, True]]
    assert head_statistics.check_rows(np.array([[[[0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]]]), visible) == []
    assert head_statistics.check_rows(ONE_BACK, visible) != []


def test_keys_before_the_text_are_visible() -> None:
    assert head_statistics.visible_keys(2, 4, causal=True, hidden=None).tolist() == [[True, True, True, False], [True] * 4]


def test_rollout_by_hand() -> None:
    found = head_statistics.rollout(np.concatenate([EVEN, ONE_BACK]))
    first = 0.5 * EVEN[0, 0] + 0.5 * np.eye(3)
    second = (0.5 * ONE_BACK[0, 0] + 0.5 * np.eye(3)) @ first
    np.testing.assert_allclose(found, [first, second])
    np.testing.assert_allclose(found.sum(axis=-1), 1.0)


def test_entropy_and_distance_by_hand() -> None:
    assert head_statistics.entropy(EVEN)[0, 0] == pytest.approx((math.log(2) + 0.5 * math.log(4) + 0.5 * math.log(2)) / 3)
    assert head_statistics.entropy(ONE_BACK)[0, 0] == 0
    assert head_statistics.distance(EVEN)[0, 0] == pytest.approx((0 + 0.5 + 0.75) / 3)
    assert head_statistics.distance(ONE_BACK)[0, 0] == pytest.approx(2 / 3)


def test_weight_at_a_distance() -> None:
    assert head_statistics.weight_at(ONE_BACK, 1)[0, 0] == 1
    assert head_statistics.weight_at(EVEN, 1)[0, 0] == pytest.approx((0.5 + 0.25) / 2)
    assert head_statistics.weight_at(EVEN, 2)[0, 0] == 0.25
    assert np.isnan(head_statistics.weight_at(EVEN, 3)[0, 0])
    assert head_statistics.weight_on_first(EVEN)[0, 0] == pytest.approx(0.375)
    assert np.isnan(head_statistics.weight_on_first(EVEN[:, :, :1, :1])[0, 0])


def test_a_planted_induction_head_is_above_all_others(planted) -> None:
    found = head_scores(Places(planted))
    assert found is not None
    assert found.induction is not None
    assert found.copying is not None
    assert np.unravel_index(found.induction.argmax(), found.induction.shape) == (1, 2)
    assert found.induction[1, 2] > 0.9  # the first token has no other before it, and takes itself for that
    assert np.sort(found.induction.ravel())[-2] < 0.2
    assert np.unravel_index(found.copying.argmax(), found.copying.shape) == (1, 2)


def test_a_planted_previous_token_head(planted) -> None:
    found = head_scores(Places(planted))
    assert found is not None
    assert (found.previous[:, 1] > 0.99).all()  # the bias of distances is shared by the layers
    assert found.previous[:, [0, 2]].max() < 0.2


def test_the_planted_network_continues_a_repeated_text(planted) -> None:
    ids = torch.tensor([[3, 7, 1, 9, 3, 7, 1, 9, 3]])
    with torch.no_grad():
        assert planted(ids)[0, 5:].argmax(dim=-1).tolist() == [1, 9, 3, 7]


def test_rows_repeat_and_no_stretch_has_a_token_twice(planted) -> None:
    rows, stretch = repeated_rows(Places(planted), avoid=frozenset({0, 5}))
    assert stretch == 9
    assert torch.equal(rows[:, :stretch], rows[:, stretch:])
    assert all(len(set(row.tolist())) == stretch and not {0, 5} & set(row.tolist()) for row in rows)


def test_no_meaning_no_score(network_of) -> None:
    encoder = head_scores(Places(network_of(causal=False)))
    assert encoder is not None
    assert encoder.induction is None
    assert encoder.copying is None
    assert head_scores(Places(network_of(mixer="none", positions="none"))) is None
