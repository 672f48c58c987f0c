"""Probabilities and quantiles against scipy, against closed forms, and against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from glassformer.foundation.distributions import (
    beta_quantile,
    chi_square_cdf,
    chi_square_quantile,
    incomplete_beta,
    normal_cdf,
    normal_quantile,
    t_quantile,
    t_two_sided,
    t_upper,
)

DF = np.array([0.35, 1.0, 2.0, 2.7554, 5.0, 7.0, 15.0, 41.7, 199.0, 3000.0, 80_000.0])


def test_t_with_one_degree_of_freedom_is_the_cauchy_distribution():
    assert float(t_two_sided(1.0, 1.0)) == pytest.approx(0.5, abs=1e-15)  # 1 - 2 arctan(1)/pi
    assert float(t_two_sided(1e-8, 1.0)) == pytest.approx(1.0 - 2e-8 / math.pi, abs=1e-16)
    assert float(t_upper(0.25, 1.0)) == pytest.approx(1.0, abs=1e-13)


def test_t_with_two_degrees_of_freedom_has_a_closed_form():
    t = 3.0
    assert float(t_two_sided(t, 2.0)) == pytest.approx(1.0 - t / math.sqrt(2.0 + t * t), rel=1e-13)


@pytest.mark.parametrize("t", [1e-3, 0.01, 0.7, 2.571, 12.0, 300.0])
def test_t_probabilities_are_those_of_scipy(t):
    np.testing.assert_allclose(t_two_sided(t, DF), 2 * stats.t.sf(t, DF), rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("probability", [1e-9, 0.0007, 0.025, 0.3, 0.5, 0.61, 0.95, 0.975, 0.9999])
def test_t_quantiles_are_those_of_scipy(probability):
    np.testing.assert_allclose(t_quantile(probability, DF), stats.t.ppf(probability, DF), rtol=1e-9, atol=1e-12)


def test_t_at_its_ends():
    assert float(t_two_sided(0.0, 5.0)) == 1.0
    assert float(t_two_sided(math.inf, 5.0)) == 0.0
    assert float(t_two_sided(1e200, 5.0)) == 0.0
    assert float(t_upper(0.5, 5.0)) == 0.0
    assert float(t_upper(0.0, 5.0)) == math.inf


def test_shapes_are_kept_and_broadcast():
    assert t_two_sided(np.ones((2, 1)), np.full(3, 4.0)).shape == (2, 3)
    assert t_upper(0.025, np.full((2, 3), 4.0)).shape == (2, 3)
    assert t_two_sided(1.0, 4.0).shape == ()


@given(st.floats(1e-12, 0.49), st.floats(0.5, 1e4))
def test_the_tail_of_the_quantile_is_the_tail(tail, df):
    assert float(t_two_sided(t_upper(tail, df), df)) == pytest.approx(2 * tail, rel=1e-9)


@given(st.floats(0.2, 400.0), st.floats(0.2, 400.0), st.floats(0.0, 1.0))
def test_incomplete_beta_is_that_of_scipy(a, b, x):
    assert float(incomplete_beta(a, b, x)) == pytest.approx(float(special.betainc(a, b, x)), abs=1e-11)


def test_beta_quantile_by_hand():
    assert beta_quantile(0.95, 1, 8) == pytest.approx(1 - 0.05 ** (1 / 8), abs=1e-12)
    assert beta_quantile(0.95, 3, 6) == pytest.approx(stats.beta.ppf(0.95, 3, 6), abs=1e-12)


@pytest.mark.parametrize("df", [0.5, 1, 2, 5, 7, 30, 300])
@pytest.mark.parametrize("probability", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_chi_square_is_that_of_scipy(df, probability):
    x = chi_square_quantile(probability, df)
    assert x == pytest.approx(stats.chi2.ppf(probability, df), rel=1e-10)
    assert chi_square_cdf(x, df) == pytest.approx(probability, rel=1e-10)
    assert chi_square_cdf(0.0, df) == 0.0


def test_normal_is_that_of_scipy():
    z = np.array([-30.0, -5.0, -1.0, 0.0, 0.3, 4.0])
    np.testing.assert_allclose(normal_cdf(z), stats.norm.cdf(z), rtol=1e-12)
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975), abs=1e-14)
