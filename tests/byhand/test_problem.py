from __future__ import annotations

import numpy as np
import pytest

from glassformer.byhand.problem import GOALS, make_problem, parse_goal
from glassformer.foundation.errors import ConfigError, GlassformerError


def test_goals_become_weights():
    np.testing.assert_array_equal(parse_goal("select 2", 3).rows, [[0, 1, 0]])
    np.testing.assert_array_equal(parse_goal("identity", 3).rows, np.eye(3))
    np.testing.assert_array_equal(parse_goal("average 3, 1", 4).rows, [[0.5, 0, 0.5, 0]])
    np.testing.assert_array_equal(parse_goal("average {1 2}", 2).rows, [[0.5, 0.5]])
    np.testing.assert_array_equal(parse_goal("average all", 5).rows, [[0.2] * 5])
    np.testing.assert_array_equal(parse_goal("weights 1/4 .75 0", 3).rows, [[0.25, 0.75, 0]])
    np.testing.assert_array_equal(parse_goal(np.array([0.25, 0.75]), 2).rows, [[0.25, 0.75]])
    assert parse_goal("average 3,1", 4).text == "average 1,3"


def test_weights_are_brought_to_sum_one_exactly():
    assert parse_goal("weights .3333333,.3333333,.3333333", 3).rows.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ("select", "names no key"),
        ("select 0", "numbered from 1 to 3"),
        ("select 4", "numbered from 1 to 3"),
        ("select 1.5", "numbered from 1 to 3"),
        ("select 1,2", "takes one key, not 2"),
        ("average", "names no key"),
        ("average {}", "names no key"),
        ("average 1,1", "names a key twice"),
        ("average one", "'one' is not a number"),
        ("identity 2", "takes nothing after it"),
        ("weights", "needs the weights"),
        ("weights .5,.5", "2 numbers for 3 keys"),
        ("weights .5,.6,-.1", "never negative"),
        ("weights .5,.5,.5", "add up to 1.5"),
        ("weights 0,0,0", "add up to 0"),
        ("chose 1", "Known: average, identity, select, weights"),
        ("slect 1", "Did you mean 'select'"),
    ],
)
def test_says_what_is_wrong_with_a_goal(goal, words):
    with pytest.raises(ConfigError) as caught:
        parse_goal(goal, 3)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"values": "1;2"}, "values has 2 rows for 4 keys"),
        ({"bound": 0}, "bound=0"),
        ({"bound": "-1"}, "bound=-1"),
        ({"bound": float("nan")}, "finite"),
        ({"scale": 0}, "scale=0"),
        ({"scale": "1/sqrt(n)"}, "not a number"),
        ({"logits": [1, 2]}, "logits needs one number for each of the 4 keys"),
    ],
)
def test_says_what_is_wrong_with_a_problem(settings, words):
    with pytest.raises(GlassformerError) as caught:
        make_problem("worked", "select 1", **settings)
    assert words in str(caught.value)


def test_scale_may_be_that_of_models():
    assert make_problem("worked", "select 1", scale="1/sqrt(d)").scale == pytest.approx(3**-0.5, abs=1e-15)
    assert make_problem("worked", "select 1", scale=0.25).scale == 0.25


def test_plain_holds_what_was_asked():
    plain = make_problem("1,2;3,4;5,6", "average 1,3", values="1;2;3", bound=7).to_dict()
    assert plain == {
        "goal": "average 1,3",
        "keys": [[1, 2], [3, 4], [5, 6]],
        "bound": 7,
        "scale": 1,
        "values": [[1], [2], [3]],
    }
    assert set(GOALS) == {"select", "identity", "average", "weights"}
