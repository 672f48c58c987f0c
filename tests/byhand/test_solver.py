"""The worked exercises, the best query within a bound, least squares beside it, and the paragraphs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from glassformer.byhand.problem import worked_keys
from glassformer.byhand.softmax import weights_of
from glassformer.byhand.solver import Answer, Answers, fit, least_squares, made_up_logits, measured, solve, with_length


def _one(*arguments, **settings) -> Answer:
    answer = solve(*arguments, **settings)
    assert isinstance(answer, Answer)
    return answer


class TestWorkedCase:
    def test_1_selects_one_value(self):
        values = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]])
        answer = _one("worked", "select 1", values=values, bound=61.38)
        assert answer.reachable
        assert answer.weights[0] > 1 - 1e-12
        np.testing.assert_allclose(answer.output, [1, 2], atol=1e-10)
        assert answer.kl < answer.least_squares.own_kl, "at the length of the published query it is better than that query"
        np.testing.assert_allclose(answer.least_squares.query, [44.6093, 28.4705, 31.0986], rtol=0, atol=5.01e-5)

    def test_2_selects_each_value_in_turn(self):
        answers = solve("worked", "identity", bound=30)
        assert isinstance(answers, Answers)
        assert answers.reachable
        np.testing.assert_allclose(answers.weights, np.eye(4), atol=1e-8)
        np.testing.assert_allclose(weights_of(answers.queries, worked_keys()), answers.weights, atol=1e-15)

    def test_3_averages_all_values_exactly_by_zero(self):
        answer = _one("worked", "average all")
        assert not answer.query.any()
        assert answer.weights.tolist() == [0.25] * 4
        assert (answer.reachable, answer.kl, answer.best.gap) == (True, 0, 0)

    def test_4_averages_the_first_two_better_than_least_squares(self):
        answer = _one("worked", "average 1,2", bound=4.3168, logits=[3, 3, -2, -3])
        np.testing.assert_allclose(answer.least_squares.own_weights, [0.549, 0.446, 0.004, 0.001], rtol=0, atol=5e-4)
        assert abs(answer.weights[0] - answer.weights[1]) < 0.005, "least squares: 0.103"
        assert answer.kl < answer.least_squares.own_kl / 2
        long = _one("worked", "average 1,2", bound=40)
        np.testing.assert_allclose(long.weights, [0.5, 0.5, 0, 0], atol=1e-10)


def test_a_key_in_the_hull_is_not_possible_because():
    answer = _one("0,0; 4,0; 0,4; -4,-4; 9,9", "select 1")
    assert answer.reachable is False
    assert answer.text.startswith("select 1: not possible, because key 1 = 1/3 key 2 + 1/3 key 3 + 1/3 key 4 (exactly).")
    assert answer.weights[0] < 0.26


def test_scale_changes_lengths_and_nothing_else():
    plain, scaled = _one("worked", "average 1,2", bound=2), _one("worked", "average 1,2", bound=2 * 3**0.5, scale="1/sqrt(d)")
    np.testing.assert_allclose(scaled.weights, plain.weights, atol=1e-9)
    np.testing.assert_allclose(scaled.query, plain.query * 3**0.5, atol=1e-6)
    assert scaled.reach.margin.low == pytest.approx(plain.reach.margin.low, rel=1e-12)


@pytest.mark.parametrize("scale", [0.2, 3.0])
def test_the_gap_covers_what_a_worse_query_misses(scale):
    rng, keys, goal = np.random.default_rng(0), worked_keys(), np.array([0.5, 0.5, 0, 0])
    best = _one(keys, goal, bound=2, scale=scale).kl
    tight = 0.0
    for _ in range(40):
        query = rng.normal(size=3)
        query *= 2 * rng.random() / np.linalg.norm(query)
        found = measured(keys, goal, scale, 2.0, query)
        assert found.kl - best <= found.gap + 1e-12
        tight = max(tight, (found.kl - best) / found.gap)
    assert tight > 0.3, "and is not much too wide"


def test_the_sufficient_length_is_sufficient():
    for goal in ("select 1", "average 1,2", "select 3"):
        answer = _one("worked", goal, scale=0.5)
        assert answer.enough is not None
        weights = weights_of(answer.enough * answer.reach.margin.direction, worked_keys(), 0.5)
        assert weights[answer.goal > 0].sum() >= 0.99 - 1e-12
    assert _one("0;1;2", "select 2").enough is None
    assert _one("worked", "weights .6,.4,0,0").enough is None


def test_the_curve_falls_and_lies_below_least_squares():
    answer = _one("worked", "average 1,3", bound=6)
    curve = answer.curve
    assert curve.best[0] == pytest.approx(np.log(2), abs=1e-12)
    assert np.all(np.diff(curve.best) <= 1e-12)
    assert np.all(curve.best <= curve.least_squares + 1e-12)
    assert curve.best[-1] == pytest.approx(answer.kl, rel=1e-9)
    assert curve.lengths[[0, -1]].tolist() == [0, 6]


def test_plain_is_json_and_says_everything():
    for answer in (_one("worked", "select 1", values=np.eye(4)), _one("0;1;-1", "select 1"), solve("1,0;0,1", "identity")):
        document = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
        assert document["text"] == answer.text
    plain = _one("0;1;-1", "select 1").to_dict()
    assert plain["reachable"] is False
    assert plain["certificate"]["outside"] == [
        {"key": 2, "coefficient": 0.5, "exact": "1/2"},
        {"key": 3, "coefficient": 0.5, "exact": "1/2"},
    ]
    assert plain["limit"]["weights"] == pytest.approx([1 / 3] * 3)


def test_identity_says_which_keys_fail():
    answers = solve("0,0;1,0;-1,0", "identity")
    assert isinstance(answers, Answers)
    assert [row.reachable for row in answers.rows] == [False, True, True]
    assert answers.reachable is False


def test_shows_itself():
    assert "<svg" in _one("1,0;0,1;-1,-1", "select 1", bound=3)._repr_html_()
    assert "<svg" in solve("1,0;0,1", "identity")._repr_html_()


def random_problem(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """n up to 12, d from 1 to 8, r from .1 to 100; every second problem degenerate in one of four ways."""
    rng = np.random.default_rng([2024, seed])
    n, d, bound = int(rng.integers(1, 13)), int(rng.integers(1, 9)), float(10 ** rng.uniform(-1, 2))
    keys, kind = rng.normal(size=(n, d)), seed % 8
    if kind == 1:  # ties, duplicates and keys inside hulls, all exact
        keys = rng.integers(-2, 3, size=(n, d)).astype(float)
    if kind == 3:  # duplicates
        keys = keys[rng.integers(0, n, size=n)]
    if kind == 5:  # low rank, up to rounding
        rank = max(1, d // 2)
        keys = keys[:, :rank] @ rng.normal(size=(rank, d))
    if kind == 7:  # on a line, up to rounding
        keys = np.outer(rng.normal(size=n), rng.normal(size=d)) + rng.normal(size=d)
    members = rng.choice(n, size=1 if seed % 3 == 0 else int(rng.integers(1, n + 1)), replace=False)
    goal = np.zeros(n)
    goal[members] = rng.dirichlet(np.ones(len(members))) if seed % 3 == 1 else 1 / len(members)
    return keys, goal, bound


def linear_program_says(keys: np.ndarray, goal: np.ndarray) -> bool:
    """Reachable in the limit, by scipy: a margin exists, and the proportions of the used keys can be had."""
    d = keys.shape[1]
    used, others = np.flatnonzero(goal), np.flatnonzero(goal == 0)
    logs = np.log(goal[used])
    matrix = np.column_stack([keys[used], np.ones(len(used))])
    fitted = matrix @ np.linalg.lstsq(matrix, logs, rcond=1e-10)[0]
    if np.abs(fitted - logs).max() > 1e-7:
        return False
    if len(others) == 0:
        return True
    down = np.column_stack([keys[others] - keys[used[0]], np.ones(len(others))])
    ties = np.column_stack([keys[used] - keys[used[0]], np.zeros(len(used))])
    result = linprog([0] * d + [-1], down, [0] * len(others), ties, [0] * len(used), [(-1, 1)] * d + [(None, 1)])
    assert result.status == 0
    return -result.fun > 1e-8


@pytest.mark.parametrize("block", range(10))
def test_a_thousand_random_problems(block):
    reachable = 0
    for seed in range(100 * block, 100 * block + 100):
        keys, goal, bound = random_problem(seed)
        answer = _one(keys, goal, bound=bound)
        assert answer.reachable is linear_program_says(keys, goal), f"problem {seed}"
        reachable += answer.reachable
        assert np.linalg.norm(answer.query) <= bound * (1 + 1e-12)
        np.testing.assert_allclose(weights_of(answer.query, keys), answer.weights, atol=0)
        assert answer.kl <= answer.least_squares.kl, f"problem {seed}: least squares is better"
        assert answer.best.gap <= 1e-9, f"problem {seed}: not proved best"
        assert answer.kl >= answer.reach.best_kl - 1e-9, f"problem {seed}: better than the limit"
        if answer.reachable:
            assert answer.reach.certificate is None
            assert answer.reach.margin is None or answer.reach.margin.low > 0
        else:
            assert answer.reach.certificate is not None
            assert answer.reach.certificate.holds(keys, goal), f"problem {seed}: the certificate does not check out"
    assert 20 < reachable < 95, "both answers occur"


PUBLISHED = np.array(
    [[44.6093, 28.4705, 31.0986], [74.2993, 24.4711, -43.9832], [9.9978, -24.5389, -51.8660], [73.9117, -69.2530, 27.8533]]
)


def test_gives_the_published_queries_to_every_printed_digit():
    """The exercise: select the first, and the identity, by target logits of 100."""
    for place, row in enumerate(PUBLISHED):
        np.testing.assert_allclose(fit(worked_keys(), 100 * np.eye(4)[place], 1.0), row, rtol=0, atol=5.01e-5)


def test_gives_the_published_poor_average():
    """The exercise: target logits (3, 3, -2, -3) give weights near (.549, .446, .004, .001)."""
    found = least_squares(worked_keys(), np.array([0.5, 0.5, 0, 0]), 1.0, 1.0, np.array([3.0, 3, -2, -3]))
    np.testing.assert_allclose(found.own_weights, [0.549, 0.446, 0.004, 0.001], rtol=0, atol=5e-4)


def test_made_up_logits():
    np.testing.assert_array_equal(made_up_logits(np.array([0, 0.5, 0.5])), [0, 100, 100])
    np.testing.assert_allclose(made_up_logits(np.array([0.25, 0.75, 0])), [np.log(0.25), np.log(0.75), np.log(1e-6)])


def test_scale_and_length():
    keys, logits = worked_keys(), np.array([1.0, 2, 3, 4])
    np.testing.assert_allclose(fit(keys, logits, 0.5), 2 * fit(keys, logits, 1.0), rtol=1e-12)
    assert np.linalg.norm(with_length(np.array([3.0, 4.0]), 7.0)) == pytest.approx(7)
    assert not with_length(np.zeros(2), 7.0).any()
    found = least_squares(keys, np.array([1.0, 0, 0, 0]), 1.0, 10.0)
    assert np.linalg.norm(found.rescaled_query) == pytest.approx(10)
    assert found.kl == pytest.approx(-np.log(found.weights[0]), rel=1e-9)
    assert found.own_kl == pytest.approx(-np.log1p(-found.own_weights[1:].sum()), rel=1e-6, abs=0)
    assert set(found.to_dict()) == {"logits", "query", "own_weights", "own_kl", "rescaled_query", "weights", "kl"}


def test_a_query_of_rounding_is_zero():
    assert not fit(np.array([[0.0, 0], [1, 1], [-1, -1]]), np.array([100.0, 0, 0]), 1.0).any()
    assert not fit(np.zeros((2, 2)), np.array([1.0, 0]), 1.0).any()


def _answer(*arguments, **settings) -> Answer:
    answer = solve(*arguments, **settings)
    assert isinstance(answer, Answer)
    return answer


def test_each_case_has_its_words():
    assert _answer("worked", "average all").text.startswith("average 1,2,3,4: possible exactly. q = 0 gives every key the same")
    assert "possible exactly, by q = (0.6931) of length 0.6931" in _answer("0;1;2", "weights 1/7,2/7,4/7").text
    text = _answer("1,0;0,1;-1,-1", "select 1").text
    assert text.startswith("select 1: possible in the limit of long queries. The query u = (")
    assert "it gives a weight of 99 %." in text
    assert "gives keys 1 and 2 the same score, at least" in _answer("1,0;0,1;-1,-1", "average 1,2").text
    assert "Add q0 = (" in _answer("1,0;0,1;-1,-1", "weights .75,.25,0").text
    assert "not possible, because key 1 = key 2" in _answer("1;1", "select 1").text


def test_three_paragraphs_with_the_proof_and_least_squares():
    parts = _answer("1,0;0,1;-1,-1", "select 1", values="1;2;3", bound=2).text.split("\n\n")
    assert len(parts) == 3
    assert parts[1].startswith("Best query with |q| <= 2: q = (")
    assert "Proved: no such query has a KL lower by more than" in parts[1]
    assert "Attention returns (" in parts[1]
    assert parts[2].startswith("Least squares against the logits (100, 0, 0) says q = (")


def test_not_decided_claims_nothing():
    answer = _answer("1;0", "select 1")
    undecided = replace(answer, reach=replace(answer.reach, reachable=None))
    assert undecided.text.startswith("select 1: not decided.")


def test_identity_row_by_row():
    answers = solve("0,0;1,0;-1,0", "identity")
    assert isinstance(answers, Answers)
    text = answers.text
    assert text.startswith("identity: not possible; 2 of the 3 keys can be selected.")
    assert "key 1: no;" in text
    assert "Not possible, because key 1 = 1/2 key 2 + 1/2 key 3" in text
    whole = solve(np.eye(3), "identity")
    assert isinstance(whole, Answers)
    assert whole.text.startswith("identity: possible in the limit. Each of the 3 keys")
