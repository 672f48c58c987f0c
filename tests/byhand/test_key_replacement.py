"""One key replaced: closed forms, bounds, proofs, and what is said about them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tests.refusals import refused

from glassformer.byhand.key_replacement import Replacement, Task, replace_key
from glassformer.byhand.problem import make_problem, worked_keys
from glassformer.byhand.softmax import kl_from_scores, weights_of
from glassformer.byhand.solver import Answer, solve
from glassformer.foundation.errors import ConfigError


@pytest.fixture(scope="module")
def averaging_query() -> np.ndarray:
    """The query of the exercise, which the next two questions keep."""
    answer = solve("worked", "average 1,2", bound=20)
    assert isinstance(answer, Answer)
    return answer.query


def _kl(query, keys, goal) -> float:
    return kl_from_scores(keys @ query, goal)


class TestWorkedCase:
    def test_5_one_key_replaced_and_the_same_query_averages_three(self, averaging_query):
        for number in (3, 4):
            found = replace_key("worked", f"average 1,2,{number}", number, query=averaging_query)
            wanted = np.array([1, 1, 1, 0]) / 3 if number == 3 else np.array([1, 1, 0, 1]) / 3
            np.testing.assert_allclose(found.weights, wanted, atol=1e-6)
            np.testing.assert_array_equal(found.query, averaging_query)
            kept = [i for i in range(4) if i != number - 1]
            np.testing.assert_array_equal(found.keys[kept], worked_keys()[kept])
            assert found.proven

    def test_6_a_key_of_length_one_takes_the_same_query_over(self, averaging_query):
        found = replace_key("worked", "select 4", 4, query=averaging_query, length=1, values=np.eye(4))
        np.testing.assert_allclose(found.key, averaging_query / np.linalg.norm(averaging_query), atol=1e-12)
        assert np.linalg.norm(found.key) == pytest.approx(1, abs=1e-14)
        assert found.weights.argmax() == 3
        assert found.weights[3] > 0.95
        np.testing.assert_allclose(found.output, found.weights, atol=1e-15)
        assert found.proven
        assert found.longer_query_reaches, "the key leads, so longer queries bring its weight to 1"
        longer = replace_key("worked", "select 4", 4, query=10 * averaging_query, length=1)
        assert longer.weights[3] > 1 - 1e-12


@pytest.mark.parametrize("length", [None, 0.3, 4.0])
def test_for_a_given_query_nothing_is_better(length):
    rng = np.random.default_rng(0)
    for _ in range(25):
        n, d = int(rng.integers(2, 7)), int(rng.integers(1, 5))
        keys, query, goal = rng.normal(size=(n, d)), 3 * rng.normal(size=d), rng.dirichlet(np.ones(n))
        place = int(rng.integers(n))
        found = replace_key(keys, goal, place + 1, query=query, length=length, scale=0.5)
        assert found.kl == pytest.approx(_kl(0.5 * query, found.keys, goal), rel=1e-9, abs=1e-15)
        scores = 0.5 * keys @ query
        limit = 40.0 if length is None else 0.5 * length * float(np.linalg.norm(query))
        if length is not None:
            assert np.linalg.norm(found.key) == pytest.approx(length, abs=1e-12)

        def with_score(score, scores=scores, place=place, goal=goal):
            return kl_from_scores(np.where(np.arange(len(goal)) == place, score, scores), goal)

        best = minimize_scalar(with_score, bounds=(-limit, limit), method="bounded", options={"xatol": 1e-9}).fun
        if d == 1 and length is not None:
            best = min(with_score(limit), with_score(-limit))
        assert found.kl <= best + 1e-9
        assert found.proven


def test_a_given_query_that_is_already_right_is_met_exactly():
    found = replace_key("1,0;0,1;5,5", "average all", 3, query="2,2")
    np.testing.assert_allclose(found.weights, [1 / 3] * 3, atol=1e-14)
    assert found.reachable
    np.testing.assert_allclose(found.key, [0.5, 0.5], atol=1e-14)  # the nearest to (5, 5) with the same score


def test_of_equally_good_keys_the_nearest_to_the_old_one():
    """q = (2, 0): the score fixes the first entry; with length 5 the second keeps its sign and side."""
    found = replace_key("0,0;3,-4", "average all", 2, query="2,0", length=5)
    np.testing.assert_allclose(found.key, [0, -5], atol=1e-12)
    found = replace_key("0,0;3,0", "average all", 2, query="2,0", length=5)
    assert abs(found.key[1]) == pytest.approx(5)


def test_impossible_proportions_are_named():
    found = replace_key("1,0;0,1;5,5", "average all", 3, query="2,1")
    assert found.reachable is False
    assert "which no replacement of key 3 can change" in found.text
    assert f"a KL of {2 / 3 * _kl(np.array([2, 1]), np.eye(2), np.array([0.5, 0.5])):.4g} remains with any key" in found.text
    assert found.proven


def test_out_of_reach_of_the_length():
    found = replace_key("1,0;0,1;0,0", "weights 0,0,1", 3, query="3,0", length=0.5)
    assert found.reachable is False
    assert "scores between -1.5 and 1.5" in found.text
    assert not found.longer_query_reaches


def test_free_query_any_length_falls_apart():
    """KL = (1 - share) KL(rest): no other keys and query are better, tried at random."""
    rng = np.random.default_rng(1)
    keys, goal = rng.normal(size=(5, 2)), np.array([0.4, 0.1, 0.2, 0.1, 0.2])
    found = replace_key(keys, goal, 3, bound=3)
    assert found.lower == pytest.approx(found.kl, abs=1e-9)
    assert found.kl > 1e-3
    assert found.kl == pytest.approx(_kl(found.query, found.keys, goal), rel=1e-9)
    for _ in range(300):
        query = rng.normal(size=2)
        query *= 3 * rng.random() / np.linalg.norm(query)
        other = keys.copy()
        other[2] = 10 * rng.normal(size=2)
        assert _kl(query, other, goal) >= found.kl - 1e-12


def test_free_query_certificate_is_about_the_other_keys_by_their_own_numbers():
    found = replace_key("9,9;0,0;1,0;-1,0", "average 1,2", 1)
    assert found.reachable is False
    assert "key 2 = 1/2 key 3 + 1/2 key 4" in found.text


@pytest.mark.parametrize("length", [0.2, 1.0, 5.0])
def test_free_query_fixed_length_promises_only_what_it_can_keep(length):
    rng = np.random.default_rng(2)
    proven = 0
    for _ in range(12):
        n, d = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        keys, goal, place = rng.normal(size=(n, d)), rng.dirichlet(np.ones(n)), int(rng.integers(n))
        found = replace_key(keys, goal, place + 1, length=length, bound=4)
        assert np.linalg.norm(found.key) == pytest.approx(length, abs=1e-10)
        assert np.linalg.norm(found.query) <= 4 * (1 + 1e-12)
        assert found.kl >= found.lower - 1e-9
        proven += found.proven
        for _ in range(150):
            query, other = rng.normal(size=d), keys.copy()
            query *= 4 * rng.random() ** 0.3 / np.linalg.norm(query)
            key = rng.normal(size=d)
            other[place] = length * key / np.linalg.norm(key)
            assert _kl(query, other, goal) >= found.lower - 1e-9, "the promise is broken"
    assert proven >= 4


def test_free_query_fixed_length_select_and_average():
    found = replace_key("worked", "select 4", 4, length=1)
    assert found.reachable
    assert found.weights[3] > 0.9999
    assert found.proven
    found = replace_key("worked", "average 1,2,3", 3, length=1, bound=20)
    np.testing.assert_allclose(found.weights, np.array([1, 1, 1, 0]) / 3, atol=1e-6)
    assert found.reachable


def test_on_a_line_both_choices_are_tried():
    """Keys 1 and 2: 5 leads by 3 along +1, -5 leads by 6 along -1."""
    found = replace_key("1;2;0", "select 3", 3, length=5, bound=2)
    assert found.key.tolist() == [-5.0]
    assert found.query.tolist() == [-2.0]
    assert found.reachable
    assert found.proven
    assert replace_key("1;-1;0", "average 1,2", 3, length=5).reachable is False


def test_a_search_is_called_a_search():
    rng = np.random.default_rng(0)
    for _ in range(40):
        keys, goal = rng.normal(size=(6, 2)), rng.dirichlet(np.ones(6))
        found = replace_key(keys, goal, 2, length=3, bound=60)
        if not found.proven:
            assert "found by search" in found.text
            assert "between the two nothing is known" in found.text
            assert found.lower < found.kl
            return
    pytest.fail("no problem needed the search; the test shows nothing")


def test_a_goal_of_one_or_zero_is_approached():
    found = replace_key("1,0;0,1;2,2", "select 3", 3, query="1,-1")
    assert found.approached
    assert found.weights[2] == pytest.approx(1 - 1e-6, abs=1e-9)
    found = replace_key("1,0;0,1;2,2", "average 1,2", 3)
    np.testing.assert_allclose(found.weights, [0.5, 0.5, 0], atol=2e-6)
    assert replace_key("1,0;0,1;2,2", "select 2", 2).weights[1] > 0.99999


def test_weights_come_from_the_models_attention():
    found = replace_key("worked", "average 2,3", 2, query="1,2,3")
    np.testing.assert_array_equal(found.weights, weights_of(found.query, found.keys))
    np.testing.assert_array_equal(found.before, weights_of(found.query, worked_keys()))


@pytest.mark.parametrize(
    ("arguments", "settings", "reason"),
    [
        (("worked", "identity", 1), {}, "replace-with-identity"),
        (("1,0", "select 1", 1), {}, "one-key"),
        (("worked", "select 1", 5), {}, "no-such-key"),
        (("worked", "select 1", 1), {"query": "1,2"}, "query-width"),
        (("worked", "select 1", 1), {"query": "0,0,0"}, "zero-query"),
        (("worked", "select 1", 1), {"length": 0}, "bad-length"),
        (("worked", "select 1", 1), {"length": -2}, "bad-length"),
    ],
)
def test_bad_input_is_a_sentence(arguments, settings, reason):
    with refused(ConfigError, reason):
        replace_key(*arguments, **settings)


def _replacement(problem=None, length=None, **changes) -> Replacement:
    problem = problem or make_problem("1,0;0,1;5,5", "average all", values="1;2;3")
    facts = {
        "query": np.array([2.0, 2.0]),
        "key": np.array([0.5, 0.5]),
        "kl": 0.0,
        "lower": 0.0,
        "reachable": True,
        "why": "it is so",
        "how": "closed form",
        "query_given": True,
    }
    return Replacement(Task(problem, 2, length), **{**facts, **changes})


def test_keys_output_and_title():
    found = _replacement()
    np.testing.assert_array_equal(found.keys, [[1, 0], [0, 1], [0.5, 0.5]])
    np.testing.assert_allclose(found.output, [2])
    assert found.title == "Attention by hand: replace key 3 so that average 1,2,3"


def test_says_what_is_proved_and_what_is_not():
    assert "Proved: no such key does better (closed form)." in _replacement().text
    assert "Proved: no such key and query does better" in _replacement(query_given=False).text
    open_ = _replacement(kl=0.5, lower=0.2, query_given=False, reachable=None)
    assert not open_.proven
    assert "no such key and query has a KL below 0.2; between the two nothing is known" in open_.text
    assert "not decided whether possible in the limit; it is so." in open_.text
    assert "not exactly possible" in _replacement(reachable=False).text
    assert (
        "so that a query with |q| <= 10 does 'average 1,2,3': not possible"
        in _replacement(reachable=False, query_given=False).text
    )


def test_longer_queries():
    assert _replacement().longer_query_reaches, "all three keys tie along (2, 2)"
    assert not _replacement(key=np.array([0.6, 0.5])).longer_query_reaches
    select = make_problem("1,0;0,1;5,5", "select 3")
    assert _replacement(problem=select, key=np.array([0.6, 0.5])).longer_query_reaches
    assert not _replacement(problem=select, key=np.array([0.4, 0.5])).longer_query_reaches
    assert (
        "Longer queries in the same direction"
        in _replacement(problem=select, key=np.array([0.6, 0.5]), reachable=False, length=1.0).text
    )


def test_approached():
    assert _replacement(problem=make_problem("1,0;0,1;5,5", "select 3")).approached
    assert not _replacement(problem=make_problem("1,0;0,1;5,5", "select 3"), length=2.0).approached
    assert not _replacement().approached


def test_plain_and_picture():
    for length in (None, 2.0):
        found = _replacement(length=length)
        document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert document["problem"]["replace"] == 3
        assert document["proven"] is True
        assert "<svg" in found._repr_html_()
    assert _replacement().to_dict()["output"] == pytest.approx([2])
