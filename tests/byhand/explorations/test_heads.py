from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from glassformer.byhand.explorations.base import orthonormal_rows
from glassformer.byhand.explorations.heads import CASES, draw_keys, heads, spread_of

DRAWS = 3000
WIDE = 4 / (2 * DRAWS**0.5)  # four standard errors of a share at its widest


def test_keys_have_the_covariance_they_should():
    rng = np.random.default_rng(0)
    means = orthonormal_rows(rng, 3, 5)
    keys = draw_keys(rng, means, 0.01, 40_000, long_a=True)
    wanted = 0.01 * np.eye(5) + np.outer(means[0], means[0]) / 2
    np.testing.assert_allclose(np.cov(keys[:, 0].T), wanted, atol=0.02)
    np.testing.assert_allclose(np.cov(keys[:, 1].T), 0.01 * np.eye(5), atol=0.001)
    np.testing.assert_allclose(keys.mean(axis=0), means, atol=0.02)


def test_one_head_swings_and_two_do_not():
    """S2.6 c, d: the shares follow from e ~ N(1, 1/2) and the logistic of beta (e - 1)."""
    beta, n = 20.0, 7
    quiet, one, two = (heads(n=n, d=9, beta=beta, draws=DRAWS, seed=1).numbers[case] for case in CASES)
    assert quiet["sd_weight_a"] < 0.05
    assert quiet["share_near_half"] > 0.99
    one_sided = 2 * norm.cdf(-np.log(9) / beta / np.sqrt(0.5))
    assert one["share_one_sided"] == pytest.approx(one_sided, abs=WIDE)
    assert one["sd_weight_a"] > 0.4
    # the first head keeps four fifths of v_a while beta e > log(4 (n - 1))
    kept = norm.sf((np.log(4 * (n - 1)) / beta - 1) / np.sqrt(0.5))
    assert two["share_near_half"] == pytest.approx(kept, abs=WIDE)
    assert two["sd_weight_a"] < one["sd_weight_a"] / 2
    assert two["mean_distance_to_average"] < one["mean_distance_to_average"] / 3


def test_larger_noise_is_not_harmless():
    assert heads(alpha=0.01, draws=500).numbers[CASES[0]]["sd_weight_a"] > 0.3


def test_spread_by_hand():
    found = spread_of(np.array([0.0, 0.5, 1.0, 0.5]), np.array([1.0, 0, 1, 0]))
    assert found == {
        "mean_weight_a": 0.5,
        "sd_weight_a": pytest.approx(0.125**0.5),
        "share_near_half": 0.5,
        "share_one_sided": 0.5,
        "mean_distance_to_average": 0.5,
    }
