from __future__ import annotations

from dataclasses import replace

import numpy as np

from glassformer.byhand.solving.solver import Answer, Answers, solve
from glassformer.byhand.solving.telling import tell, tell_all


def _answer(*arguments, **settings) -> Answer:
    answer = solve(*arguments, **settings)
    assert isinstance(answer, Answer)
    return answer


def test_each_case_has_its_words():
    assert tell(_answer("worked", "average all")).startswith(
        "average 1,2,3,4: possible exactly. q = 0 gives every key the same"
    )
    assert "possible exactly, by q = (0.6931) of length 0.6931" in tell(_answer("0;1;2", "weights 1/7,2/7,4/7"))
    text = tell(_answer("1,0;0,1;-1,-1", "select 1"))
    assert text.startswith("select 1: possible in the limit of long queries. Along u = (")
    assert "is enough for a share of 99 %." in text
    assert "keys 1 and 2 tie and lead every other key" in tell(_answer("1,0;0,1;-1,-1", "average 1,2"))
    assert "Add q0 = (" in tell(_answer("1,0;0,1;-1,-1", "weights .75,.25,0"))
    assert "not possible, because key 1 = key 2" in tell(_answer("1;1", "select 1"))


def test_three_paragraphs_with_the_proof_and_least_squares():
    parts = tell(_answer("1,0;0,1;-1,-1", "select 1", values="1;2;3", bound=2)).split("\n\n")
    assert len(parts) == 3
    assert parts[1].startswith("Best query with |q| <= 2: q = (")
    assert "Proved: no such query has a KL lower by more than" in parts[1]
    assert "Attention returns (" in parts[1]
    assert parts[2].startswith("Least squares against the logits (100, 0, 0) says q = (")


def test_not_decided_claims_nothing():
    answer = _answer("1;0", "select 1")
    undecided = replace(answer, reach=replace(answer.reach, reachable=None))
    assert tell(undecided).startswith("select 1: not decided.")


def test_identity_row_by_row():
    answers = solve("0,0;1,0;-1,0", "identity")
    assert isinstance(answers, Answers)
    text = tell_all(answers)
    assert text.startswith("identity: not possible; 2 of the 3 keys can be selected.")
    assert "key 1: no;" in text
    assert "Not possible, because key 1 = 1/2 key 2 + 1/2 key 3" in text
    whole = solve(np.eye(3), "identity")
    assert isinstance(whole, Answers)
    assert tell_all(whole).startswith("identity: possible in the limit. Each of the 3 keys")
