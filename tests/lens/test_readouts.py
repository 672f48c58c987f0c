"""Readouts by hand: rows, rollout, entropy, distance, weights at a distance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.lens import readouts

ONE_BACK = np.array([[[[1, 0, 0], [1, 0, 0], [0, 1, 0]]]], float)  # one layer, one head, three tokens
EVEN = np.array([[[[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]]])
CAUSAL = np.tril(np.ones((3, 3), bool))


def test_rows_in_order() -> None:
    assert readouts.check_rows(EVEN, CAUSAL) == []


def test_a_row_that_does_not_sum_to_one() -> None:
    assert readouts.check_rows(EVEN * [1, 1, 0.5], CAUSAL) == ["Row 2 of layer 0, head 0 sums to 0.75 instead of 1."]
    assert "sums to nan" in readouts.check_rows(EVEN * [1, np.nan, 1], CAUSAL)[0]


def test_weight_where_nothing_may_be_seen() -> None:
    future = EVEN.copy()
    future[0, 0, 0] = [0.5, 0.0, 0.5]
    assert readouts.check_rows(future, CAUSAL) == ["Layer 0, head 0: position 0 gives 0.5 to position 2, which it may not see."]


def test_a_row_that_sees_nothing_is_zero() -> None:
    hidden = np.array([True, False, False])
    visible = readouts.visible_keys(3, 3, causal=True, hidden=hidden)
    assert visible.tolist() == [[False, False, False], [False, True, False], [False, True, True]]
    assert readouts.check_rows(np.array([[[[0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]]]), visible) == []
    assert readouts.check_rows(ONE_BACK, visible) != []


def test_keys_before_the_text_are_visible() -> None:
    assert readouts.visible_keys(2, 4, causal=True, hidden=None).tolist() == [[True, True, True, False], [True] * 4]


def test_rollout_by_hand() -> None:
    found = readouts.rollout(np.concatenate([EVEN, ONE_BACK]))
    first = 0.5 * EVEN[0, 0] + 0.5 * np.eye(3)
    second = (0.5 * ONE_BACK[0, 0] + 0.5 * np.eye(3)) @ first
    np.testing.assert_allclose(found, [first, second])
    np.testing.assert_allclose(found.sum(axis=-1), 1.0)


def test_entropy_and_distance_by_hand() -> None:
    assert readouts.entropy(EVEN)[0, 0] == pytest.approx((math.log(2) + 0.5 * math.log(4) + 0.5 * math.log(2)) / 3)
    assert readouts.entropy(ONE_BACK)[0, 0] == 0
    assert readouts.distance(EVEN)[0, 0] == pytest.approx((0 + 0.5 + 0.75) / 3)
    assert readouts.distance(ONE_BACK)[0, 0] == pytest.approx(2 / 3)


def test_weight_at_a_distance() -> None:
    assert readouts.weight_at(ONE_BACK, 1)[0, 0] == 1
    assert readouts.weight_at(EVEN, 1)[0, 0] == pytest.approx((0.5 + 0.25) / 2)
    assert readouts.weight_at(EVEN, 2)[0, 0] == 0.25
    assert np.isnan(readouts.weight_at(EVEN, 3)[0, 0])
    assert readouts.weight_on_first(EVEN)[0, 0] == pytest.approx(0.375)
    assert np.isnan(readouts.weight_on_first(EVEN[:, :, :1, :1])[0, 0])
