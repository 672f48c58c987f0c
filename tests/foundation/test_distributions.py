"""Probabilities and quantiles against mpmath, closed forms and published tables."""

from __future__ import annotations

import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.foundation.distributions import (
    beta_quantile,
    chi_square_quantile,
    incomplete_beta,
    normal_quantile,
    t_two_sided,
    t_upper,
)

DF = [0.35, 1.0, 2.0, 2.7554, 5.0, 15.0, 41.7, 3000.0]


def exact_t_two_sided(t: float, df: float) -> float:
    with mpmath.workdps(40):
        half, t_, df_ = mpmath.mpf(1) / 2, mpmath.mpf(t), mpmath.mpf(df)
        return float(mpmath.betainc(df_ / 2, half, 0, df_ / (df_ + t_ * t_), regularized=True))


def test_t_with_one_degree_of_freedom_is_the_cauchy_distribution():
    assert float(t_two_sided(1.0, 1.0)) == pytest.approx(0.5, abs=1e-15)  # 1 - 2 arctan(1)/pi
    assert float(t_upper(0.25, 1.0)) == pytest.approx(1.0, abs=1e-10)  # 1e-11 before scipy 1.17


def test_t_with_two_degrees_of_freedom_has_a_closed_form():
    t = 3.0
    assert float(t_two_sided(t, 2.0)) == pytest.approx(1.0 - t / math.sqrt(2.0 + t * t), rel=1e-13)


@pytest.mark.parametrize(("df", "published"), [(1, 12.706), (5, 2.571), (7, 2.365), (30, 2.042), (120, 1.980)])
def test_t_quantiles_are_those_of_the_printed_table(df, published):
    assert float(t_upper(0.025, df)) == pytest.approx(published, abs=5e-4)


@pytest.mark.parametrize("df", DF)
@pytest.mark.parametrize("t", [1e-3, 0.01, 0.7, 2.571, 12.0, 300.0])
def test_t_probabilities_are_exact(t, df):
    assert float(t_two_sided(t, df)) == pytest.approx(exact_t_two_sided(t, df), rel=1e-11)


def test_t_at_its_ends():
    assert float(t_two_sided(0.0, 5.0)) == 1.0
    assert float(t_two_sided(math.inf, 5.0)) == 0.0
    assert float(t_two_sided(1e200, 5.0)) == 0.0
    assert float(t_upper(0.5, 5.0)) == pytest.approx(0.0, abs=1e-15)
    assert float(t_upper(0.0, 5.0)) == math.inf


def test_shapes_are_broadcast():
    assert t_two_sided(np.ones((2, 1)), np.full(3, 4.0)).shape == (2, 3)
    assert t_upper(0.025, np.full((2, 3), 4.0)).shape == (2, 3)
    assert t_two_sided(1.0, 4.0).shape == ()


@given(st.floats(1e-12, 0.49), st.floats(0.5, 1e4))
def test_the_tail_of_the_quantile_is_the_tail(tail, df):
    assert float(t_two_sided(t_upper(tail, df), df)) == pytest.approx(2 * tail, rel=1e-9)


@pytest.mark.parametrize(("a", "b", "x"), [(0.2, 0.2, 0.5), (3.0, 6.0, 0.1), (40.5, 300.0, 0.12), (1.0, 8.0, 0.9)])
def test_incomplete_beta_is_exact(a, b, x):
    assert float(incomplete_beta(a, b, x)) == pytest.approx(float(mpmath.betainc(a, b, 0, x, regularized=True)), rel=1e-11)


def test_beta_quantile_by_hand():
    assert beta_quantile(0.95, 1, 8) == pytest.approx(1 - 0.05 ** (1 / 8), abs=1e-12)
    assert float(incomplete_beta(3, 6, beta_quantile(0.95, 3, 6))) == pytest.approx(0.95, abs=1e-12)


@pytest.mark.parametrize("df", [0.5, 1, 2, 7, 300])
@pytest.mark.parametrize("probability", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_chi_square_quantiles_are_exact(df, probability):
    x = chi_square_quantile(probability, df)
    assert float(mpmath.gammainc(df / 2, 0, x / 2, regularized=True)) == pytest.approx(probability, rel=1e-10)


def test_normal_is_exact():
    assert normal_quantile(0.975) == pytest.approx(1.959963984540054, abs=1e-14)


def test_scipy_is_imported_only_when_it_is_needed():
    code = "import sys, glassformer, glassformer.foundation.distributions; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
