from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from glassformer.byhand.explorations.base import orthonormal_rows
from glassformer.byhand.explorations.outer_products import NEAREST_MIXTURE, inputs, matrices, measure, outer_products
from glassformer.byhand.softmax import output_of


@pytest.fixture
def basis():
    return orthonormal_rows(np.random.default_rng(0), 4, 7)


def test_queries_keys_and_values_by_hand(basis):
    """Worked out on paper for |u| = beta."""
    beta = 1.5
    a, b, c, d = u = beta * basis
    q_map, k_map, v_map = matrices(u, beta)
    x = inputs(u)
    np.testing.assert_allclose(x @ v_map.T, [b, np.zeros(7), b - c], atol=1e-12)
    np.testing.assert_allclose(x @ k_map.T, [beta**2 * d, np.zeros(7), beta**2 * c], atol=1e-12)
    np.testing.assert_allclose(x @ q_map.T, [beta**2 * c, beta**2 * d, np.zeros(7)], atol=1e-12)
    np.testing.assert_allclose(x, [d + b, a, c + b], atol=1e-15)


def test_c2_is_u_b_and_c1_is_u_b_minus_u_c(basis):
    at = measure(basis, 2.0)
    assert at.distances["c2 - u_b, with"] < 1e-12
    assert at.distances["c1 - (u_b - u_c), with"] < 1e-12
    np.testing.assert_allclose(at.pattern, [[0, 0, 1], [1, 0, 0], [1 / 3] * 3], atol=1e-12)


def test_without_projections_c2_is_u_a_and_cannot_be_u_b(basis):
    at = measure(basis, 2.0)
    leak = 1 / (np.exp(4) + 2)
    np.testing.assert_allclose(at.plain_pattern[1], [leak, 1 - 2 * leak, leak], atol=1e-12)
    assert at.distances["c2 - u_a, without"] < 0.06
    for beta in (0.3, 1.0, 3.0):
        assert measure(basis, beta).distances["c2 - u_b, without"] >= NEAREST_MIXTURE


def test_the_nearest_mixture_is_the_nearest(basis):
    x, target = inputs(basis), basis[1]

    def distance(z):
        return float(np.linalg.norm(output_of(np.asarray(z), np.eye(3), x) - target))

    assert minimize(distance, np.zeros(3), method="Nelder-Mead").fun == pytest.approx(NEAREST_MIXTURE, abs=1e-3)
    assert np.linalg.norm([0.4, 0.2, 0.4] @ x - target) == pytest.approx(NEAREST_MIXTURE, abs=1e-12)


def test_numbers_hold_both_matrices():
    numbers = outer_products(d=5, beta=2.0, seed=3).numbers
    assert np.shape(numbers["pattern_with"]) == np.shape(numbers["pattern_without"]) == (3, 3)
    assert len(numbers["beta"]) == len(numbers["distances_by_beta"]["c2 - u_b, with"])
