from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from glassformer.byhand.solving.margin import nearest_mixture, nonnegative_least_squares, row_space, spread, widest_margin


def test_orthonormal_keys_by_hand():
    """Keys e1..e5, members 1 and 2: u = (a, a, -b, -b, -b), widest at b = 2a/3, with margin sqrt(1/2 + 1/3)."""
    margin = widest_margin(np.eye(5), [0, 1])
    assert margin.low == pytest.approx(np.sqrt(5 / 6), abs=1e-14)
    assert margin.high == pytest.approx(np.sqrt(5 / 6), abs=1e-14)
    np.testing.assert_allclose(margin.direction, np.array([3, 3, -2, -2, -2]) / np.sqrt(30), atol=1e-14)
    np.testing.assert_allclose(margin.mixture, [1 / 3] * 3, atol=1e-14)


def test_no_margin_for_a_key_in_the_hull():
    margin = widest_margin(np.array([[0.0, 0], [1, 0], [-1, 0], [0, 3]]), [0])
    assert margin.low == 0
    assert not margin.direction.any()
    np.testing.assert_allclose(margin.mixture[:2], [0.5, 0.5], atol=1e-9)


def test_equal_keys_have_no_margin():
    assert widest_margin(np.ones((3, 2)), [1]).low == 0


def test_rounding_is_not_a_margin():
    rng = np.random.default_rng(3)
    keys = np.outer(rng.normal(size=7), rng.normal(size=5)) + rng.normal(size=5)  # on a line, up to rounding
    middle = int(np.argsort(keys[:, 0])[3])
    assert widest_margin(keys, [middle]).low == 0
    assert widest_margin(keys, [int(np.argmax(keys[:, 0]))]).low > 0


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_direction_proves_it_from_below_and_the_mixture_from_above(size):
    rng, seen = np.random.default_rng(11), 0
    for _ in range(60):
        n, d = int(rng.integers(3, 13)), int(rng.integers(1, 9))
        keys = size * rng.normal(size=(n, d))
        members = sorted(rng.choice(n, size=int(rng.integers(1, 3)), replace=False).tolist())
        margin = widest_margin(keys, members)
        if margin.low == 0:
            continue
        seen += 1
        others = [j for j in range(n) if j not in members]
        levels = keys @ margin.direction
        assert np.linalg.norm(margin.direction) == pytest.approx(1, abs=1e-12)
        assert np.ptp(levels[members]) <= 1e-10 * spread(keys)
        assert levels[members].mean() - levels[others].max() == pytest.approx(margin.low, rel=1e-6, abs=1e-12 * size)
        assert margin.high >= margin.low * (1 - 1e-9)
        assert margin.high == pytest.approx(margin.low, rel=1e-8, abs=0)
        assert margin.mixture.sum() == pytest.approx(1, abs=1e-12)
        assert margin.mixture.min() >= 0
    assert seen > 20


def test_nonnegative_least_squares_is_that_of_scipy():
    rng = np.random.default_rng(5)
    for _ in range(50):
        m, n = int(rng.integers(2, 9)), int(rng.integers(1, 12))
        matrix, right = rng.normal(size=(m, n)), rng.normal(size=m)
        ours, (theirs, residual) = nonnegative_least_squares(matrix, right), nnls(matrix, right)
        assert ours.min() >= 0
        assert np.linalg.norm(matrix @ ours - right) == pytest.approx(residual, abs=1e-10)
        assert ours.shape == theirs.shape


def test_nearest_mixture_by_hand():
    np.testing.assert_allclose(nearest_mixture(np.array([[1.0, 1], [1, -3]])), [0.75, 0.25], atol=1e-14)
    np.testing.assert_allclose(nearest_mixture(np.array([[2.0], [5]])), [1, 0], atol=1e-14)


def test_row_space_leaves_out_rounding():
    assert len(row_space(np.array([[1.0, 0, 0], [1, 1e-14, 0]]), 1.0)) == 1
    assert len(row_space(np.array([[1.0, 0, 0], [1, 1e-3, 0]]), 1.0)) == 2
    assert row_space(np.zeros((2, 3)), 0.0).shape == (0, 3)
