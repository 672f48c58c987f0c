"""The widest margin and the nearest weights: by hand, against scipy, and with their proofs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from glassformer.byhand.optimum import Softmax, gap_in_ball, nearest_in_ball, nearest_mixture, row_space, spread, widest_margin
from glassformer.byhand.softmax import excess_from_scores, kl_from_scores


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


def test_nearest_mixture_by_hand():
    np.testing.assert_allclose(nearest_mixture(np.array([[1.0, 1], [1, -3]])), [0.75, 0.25], atol=1e-14)
    np.testing.assert_allclose(nearest_mixture(np.array([[2.0], [5]])), [1, 0], atol=1e-14)


def test_row_space_leaves_out_rounding():
    assert len(row_space(np.array([[1.0, 0, 0], [1, 1e-14, 0]]), 1.0)) == 1
    assert len(row_space(np.array([[1.0, 0, 0], [1, 1e-3, 0]]), 1.0)) == 2
    assert row_space(np.zeros((2, 3)), 0.0).shape == (0, 3)


def _problem(rng: np.random.Generator) -> Softmax:
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 6))
    goal = np.where(rng.random(n) < 0.4, 0.0, rng.random(n))
    goal[0] += 0.1
    return Softmax(rng.normal(size=(n, d)), 0.3 * rng.normal(size=n), goal / goal.sum())


def test_kl_by_hand():
    assert kl_from_scores(np.array([0.0, 0.0]), np.array([1.0, 0.0])) == pytest.approx(np.log(2), abs=1e-15)
    assert kl_from_scores(np.array([0.0, 0.0]), np.array([0.25, 0.75])) == pytest.approx(
        0.25 * np.log(0.5) + 0.75 * np.log(1.5), abs=1e-15
    )


def test_kl_keeps_its_digits_where_the_plain_formula_has_none():
    assert kl_from_scores(np.array([100.0, 0.0]), np.array([1.0, 0.0])) == pytest.approx(np.exp(-100), rel=1e-12, abs=0)
    tiny = 1e-12
    assert kl_from_scores(np.array([tiny, -tiny]), np.array([0.5, 0.5])) == pytest.approx(tiny**2 / 2, rel=1e-6, abs=0)
    assert kl_from_scores(np.array([0.0, 2000.0]), np.array([1.0, 0.0])) == pytest.approx(2000, rel=1e-12)
    assert kl_from_scores(np.array([-1e6, 0, 1e6]), np.array([0.5, 0.5, 0])) == pytest.approx(1.5e6 + np.log(0.5), rel=1e-12)


def test_kl_and_excess_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    for _ in range(50):
        problem = _problem(rng)
        scores = 3 * rng.normal(size=len(problem.goal))
        logs, used = log_softmax(scores), problem.goal > 0
        kl = (problem.goal[used] * (np.log(problem.goal[used]) - logs[used])).sum()
        assert kl_from_scores(scores, problem.goal) == pytest.approx(kl, rel=1e-11, abs=1e-15)
        np.testing.assert_allclose(excess_from_scores(scores, problem.goal), np.exp(logs) - problem.goal, atol=1e-14)


def test_gradient_and_curvature_are_derivatives():
    rng = np.random.default_rng(1)
    problem = Softmax(rng.normal(size=(5, 3)), rng.normal(size=5), np.array([0.5, 0.3, 0.2, 0, 0]))
    y, h = rng.normal(size=3), 1e-5
    steps = h * np.eye(3)
    slope = [(problem.kl(y + e) - problem.kl(y - e)) / (2 * h) for e in steps]
    np.testing.assert_allclose(problem.gradient(y), slope, atol=1e-8)
    bend = [(problem.gradient(y + e) - problem.gradient(y - e)) / (2 * h) for e in steps]
    np.testing.assert_allclose(problem.curvature(y), bend, atol=1e-8)


def test_the_gap_is_never_above_the_kl():
    """Averaging two of three keys with a long query: the KL is far below what the gradient's rounding could prove."""
    problem = Softmax(np.array([[0.3, 0.1], [0.1, 0.3], [-2.0, -1.9]]), np.zeros(3), np.array([0.5, 0.5, 0]))
    found = nearest_in_ball(problem, 80.0)
    assert found.kl < 1e-25
    assert found.gap <= found.kl


def test_two_keys_by_hand():
    """Keys 1 and 0, goal (3/4, 1/4): y = log 3 inside the ball; at the edge of a smaller one."""
    problem = Softmax(np.array([[1.0], [0.0]]), np.zeros(2), np.array([0.75, 0.25]))
    inside = nearest_in_ball(problem, 5.0)
    assert inside.y[0] == pytest.approx(np.log(3), abs=1e-12)
    assert inside.gap <= inside.kl, "no KL is below 0"
    small = nearest_in_ball(problem, 0.5)
    assert small.y[0] == pytest.approx(0.5, abs=1e-14)
    assert small.gap == pytest.approx(0, abs=1e-14)


def test_no_other_solver_finds_better_and_the_gap_says_so():
    rng = np.random.default_rng(2)
    for _ in range(40):
        problem, bound = _problem(rng), float(10 ** rng.uniform(-1, 1))
        found = nearest_in_ball(problem, bound)
        other = minimize(
            problem.kl,
            np.zeros(problem.slopes.shape[1]),
            jac=problem.gradient,
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda y, r=bound: r**2 - y @ y, "jac": lambda y: -2 * y},
            options={"ftol": 1e-12, "maxiter": 300},
        )
        assert np.linalg.norm(found.y) <= bound * (1 + 1e-12)
        assert found.kl == pytest.approx(problem.kl(found.y), rel=1e-12)
        assert found.gap <= 1e-10
        if np.linalg.norm(other.x) <= bound:
            assert found.kl <= other.fun + 1e-10
        assert found.kl >= other.fun - 1e-4


def test_the_gap_is_a_bound_by_itself():
    rng = np.random.default_rng(3)
    problem, bound = _problem(rng), 2.0
    best = nearest_in_ball(problem, bound).kl
    for _ in range(30):
        y = rng.normal(size=problem.slopes.shape[1])
        y *= bound * rng.random() / np.linalg.norm(y)
        assert problem.kl(y) - best <= gap_in_ball(y, problem.gradient(y), bound) + 1e-12


def test_starts_change_the_time_not_the_answer():
    rng = np.random.default_rng(4)
    problem = _problem(rng)
    plain, started = (
        nearest_in_ball(problem, 3.0),
        nearest_in_ball(problem, 3.0, [10 * rng.normal(size=problem.slopes.shape[1])]),
    )
    assert started.kl == pytest.approx(plain.kl, rel=1e-9)


def test_nothing_to_choose():
    empty = nearest_in_ball(Softmax(np.zeros((3, 0)), np.zeros(3), np.array([1.0, 0, 0])), 1.0)
    assert empty.kl == pytest.approx(np.log(3))
    flat = nearest_in_ball(Softmax(np.zeros((2, 2)), np.zeros(2), np.array([1.0, 0])), 1.0)
    assert flat.kl == pytest.approx(np.log(2))
