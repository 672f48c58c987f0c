"""The boundaries of planned looks: what was written down is what simulation finds, and looks keep the error; Holm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.study.statistics.corrections import (
    USUAL_LOOKS,
    USUAL_SAME,
    USUAL_THRESHOLDS,
    Looks,
    boundaries,
    holm,
    t_process,
)


def error_spent(nominal, sides, streams):
    """The share of simulated studies stopped by each look, from streams the tables were not made from."""
    stopped = np.zeros((len(streams), len(USUAL_LOOKS)))
    for row, stream in enumerate(streams):
        alive = np.ones(400_000, dtype=bool)
        for look, (n, t) in enumerate(zip(USUAL_LOOKS, t_process(USUAL_LOOKS, 400_000, stream))):
            reach = np.abs(t) if sides == 2 else t
            alive &= reach < stats.t.isf(nominal[look] / sides, n - 1)
            stopped[row, look] = 1 - alive.mean()
    return stopped.mean(0)


def test_quadratic_and_linear_spending():
    share = np.array(USUAL_LOOKS) / 16
    for left in (1, 5):
        spent = error_spent(USUAL_THRESHOLDS[left], 2, [100, 101])
        np.testing.assert_allclose(spent, 0.04 / left * share**2, rtol=0.05)  # four standard errors at the first look
    np.testing.assert_allclose(error_spent(USUAL_SAME, 1, [100, 101]), 0.04 * share, rtol=0.03)


@pytest.mark.slow
def test_the_written_tables_come_out_again():
    two, one = (Looks(USUAL_LOOKS)._analyses(sides) for sides in (2, 1))
    for left, row in USUAL_THRESHOLDS.items():
        again = np.mean([boundaries(*two, 0.05 / left, sides=2, stream=s) for s in (200, 201, 202, 203)], axis=0)
        np.testing.assert_allclose(again, row, rtol=0.04)
    again = np.mean([boundaries(*one, 0.05, sides=1, stream=s) for s in (200, 201, 202, 203)], axis=0)
    np.testing.assert_allclose(again, USUAL_SAME, rtol=0.03)


class TestOneLook:
    def test_is_the_ordinary_test(self):
        looks = Looks((8,))
        assert [looks.threshold(0, left) for left in (1, 2, 3)] == pytest.approx([0.04, 0.02, 0.04 / 3])
        assert looks.same_threshold(0) == pytest.approx(0.04)


class TestOtherLooks:
    def test_are_simulated_once_and_always_the_same(self):
        first = boundaries((7, 10), (0.49, 0.51), 0.05, sides=2, paths=50_000)
        boundaries.cache_clear()
        t_process.cache_clear()
        assert boundaries((7, 10), (0.49, 0.51), 0.05, sides=2, paths=50_000) == first
        assert first[0] == pytest.approx(0.05 * 0.49)
        assert 0.05 * 0.51 < first[1] < 0.05  # what is left to spend, and more, because the looks are correlated


class TestLaterStudies:
    def test_a_second_study_on_the_same_seeds_and_more(self):
        """Eight seeds spent .8 of alpha; sixteen spend .1 more, of which the looks have a part in common."""
        looks = Looks((8,), share=0.1, pooled=8, before=((8, 0.8),))
        assert looks.threshold(0, 1) == pytest.approx(0.0094, abs=0.0002)
        assert Looks((8,), share=0.1).threshold(0, 1) == pytest.approx(0.005)

    def test_the_same_seeds_again_are_the_same_analysis(self):
        again = Looks((8,), share=0.1, before=((8, 0.8),))
        assert again.threshold(0, 1) == pytest.approx(0.04)
        assert again.spent(1) == []
        more = Looks((8, 16), share=0.1, before=((8, 0.8),))
        assert more.spent(2) == [(16, pytest.approx(0.1))]
        assert Looks((6, 8)).spent(1) == [(6, pytest.approx(0.8 * 36 / 64))]


def test_t_process_is_that_of_a_plain_simulation():
    process = t_process((3, 5), 200_000)
    x = np.random.default_rng(1).normal(size=(200_000, 5))
    plain = [stats.ttest_1samp(x[:, :n], 0, axis=1).statistic for n in (3, 5)]
    for mine, theirs in zip(process, plain):
        np.testing.assert_allclose(np.quantile(mine, [0.05, 0.3, 0.9]), np.quantile(theirs, [0.05, 0.3, 0.9]), rtol=0.03)
    both = [np.mean((np.abs(a) > 2) & (np.abs(b) > 2)) for a, b in (process, plain)]
    assert both[0] == pytest.approx(both[1], abs=0.003)


@pytest.mark.parametrize("seeds", [(), (1,), (8, 8), (8, 6)])
def test_looks_must_rise(seeds):
    with refused(ConfigError, "looks-not-rising"):
        Looks(seeds)


def test_alpha_must_be_small():
    with refused(ConfigError, "alpha-out-of-range", "alpha=0.7"):
        Looks((6,), alpha=0.7)


class TestHolm:
    def test_by_hand(self):
        np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])

    def test_never_above_one(self):
        np.testing.assert_allclose(holm([0.5, 0.6, 0.9]), [1.0, 1.0, 1.0])

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.randoms())
    def test_laws(self, p, random):
        order = list(range(len(p)))
        random.shuffle(order)
        corrected = holm(p)
        assert np.all(corrected >= np.array(p))
        assert np.all(corrected <= np.minimum(1.0, np.array(p) * len(p) + 1e-15))
        np.testing.assert_array_equal(holm([p[i] for i in order]), [corrected[i] for i in order])
