"""The calculator: the published argmax example, softmax by hand, masks, scales, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.byhand.calculator import attend_by_hand
from glassformer.byhand.request import answer, request_from_words
from glassformer.foundation.errors import ConfigError

KEYS, VALUES = "0,1,2; 1,1,2; -1,1,-2; 0,-1,-2", "3,2,-4; 3,-2,4; 3,2,0; 3,2,0"


def test_the_published_argmax_example() -> None:
    found = attend_by_hand("-2,1,1", KEYS, VALUES, argmax=True)
    np.testing.assert_array_equal(found.scores, [[3, 1, 1, -3]])
    np.testing.assert_array_equal(found.weights, [[1, 0, 0, 0]])
    np.testing.assert_array_equal(found.outputs, [[3, 2, -4]])


def test_softmax_by_hand() -> None:
    """Scores 0 and ln 3: weights 1/4 and 3/4, the output is the mean of 0 and 4 under them."""
    found = attend_by_hand([[1.0]], [[0.0], [math.log(3)]], [[0.0], [4.0]])
    np.testing.assert_allclose(found.weights, [[0.25, 0.75]])
    np.testing.assert_allclose(found.outputs, [[3.0]])
    halved = attend_by_hand([[1.0] * 4], [[0.0] * 4, [math.log(3) / 2] * 4], scale="1/sqrt(d)")
    np.testing.assert_allclose(halved.weights, [[0.25, 0.75]])
    assert halved.outputs is None


def test_masks() -> None:
    found = attend_by_hand("0,0", "1,0;0,1;1,1", "1;2;6", mask="3")
    np.testing.assert_allclose(found.outputs, [[1.5]])
    assert "hidden" in found.text
    causal = attend_by_hand("0;0;0", "1;2;3", mask="causal")
    np.testing.assert_allclose(causal.weights, [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3])
    hard = attend_by_hand("1,1", "1,0;0,1;1,1", mask=[3], argmax=True)
    assert hard.weights[0, 2] == 0.0
    assert hard.weights.sum() == 1.0
    nothing = attend_by_hand("1", "1;2", "5;6", mask="1,2", argmax=True)
    np.testing.assert_array_equal(nothing.outputs, [[0.0]])


def test_from_words_and_as_json() -> None:
    request, folder = request_from_words(["attend"])
    found = answer({**request, "query": "1,0", "keys": "1,0;0,1", "values": "1;2"}, folder=folder)
    document = found.to_dict()
    assert document["weights"][0][0] == pytest.approx(math.e / (1 + math.e))
    assert found.figure().axes


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "no-query"),
        ({"query": "1"}, "no-keys"),
        ({"query": "1,2", "keys": "1;2"}, "query-width"),
        ({"query": "1", "keys": "1;2", "values": "1"}, "values-per-key"),
        ({"query": "1", "keys": "1;2", "mask": "3"}, "no-such-key"),
        ({"query": "1", "keys": "1;2", "mask": "causal"}, "causal-needs-a-query-per-key"),
        ({"query": "1", "keys": "1;2", "bound": "3"}, "goal-with-attend"),
    ],
)
def test_refused(more, reason) -> None:
    with refused(ConfigError, reason):
        answer({"attend": True, **more})


def test_a_goal_has_no_mask() -> None:
    with refused(ConfigError, "only-with-attend"):
        answer({"goal": "select 1", "keys": "1;2", "mask": "1"})
