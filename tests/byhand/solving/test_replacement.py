from __future__ import annotations

import json

import numpy as np
import pytest

from glassformer.byhand.problem import make_problem
from glassformer.byhand.solving.replacement import Replacement


def _replacement(**changes) -> Replacement:
    facts = {
        "problem": make_problem("1,0;0,1;5,5", "average all", values="1;2;3"),
        "place": 2,
        "length": None,
        "given_query": True,
        "query": np.array([2.0, 2.0]),
        "key": np.array([0.5, 0.5]),
        "before": np.array([0.0, 0, 1]),
        "weights": np.array([1, 1, 1]) / 3,
        "kl": 0.0,
        "lower": 0.0,
        "reachable": True,
        "why": "it is so",
        "how": "closed form",
    }
    return Replacement(**{**facts, **changes})


def test_keys_output_and_title():
    found = _replacement()
    np.testing.assert_array_equal(found.keys, [[1, 0], [0, 1], [0.5, 0.5]])
    np.testing.assert_allclose(found.output, [2])
    assert found.title == "Attention by hand: replace key 3 so that average 1,2,3"


def test_says_what_is_proved_and_what_is_not():
    assert "Proved: no such key does better (closed form)." in _replacement().text
    assert "Proved: no such key and query does better" in _replacement(given_query=False).text
    open_ = _replacement(kl=0.5, lower=0.2, given_query=False, reachable=None)
    assert not open_.proven
    assert "no such key and query has a KL below 0.2; between the two nothing is known" in open_.text
    assert "not decided whether possible in the limit; it is so." in open_.text
    assert "not exactly possible" in _replacement(reachable=False).text
    assert (
        "so that a query with |q| <= 10 does 'average 1,2,3': not possible"
        in _replacement(reachable=False, given_query=False).text
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
