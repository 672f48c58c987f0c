"""How often a change was tried: what counts as an attempt, and what trying again costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glassformer.foundation.errors import RunError
from glassformer.foundation.metrics import LOSS
from glassformer.study.evidence import Trials
from glassformer.study.ledger import Attempt, Earlier, Ledger
from glassformer.study.verdict import Rules, decide, over_studies

FIRST = Attempt("studies/a", "plan a", "base", "alibi", "text", "alibi", "rules", 0.01, 0, 8, "not decided", 0.2)
NOW = replace(FIRST, study="studies/b", plan="plan b", first_seed=8, verdict="", p=None)


class TestEarlier:
    def test_fresh_seeds_are_another_attempt(self):
        earlier = Earlier.of(
            NOW, [FIRST, replace(FIRST, change="rotary"), replace(FIRST, text="other"), replace(FIRST, base="x")]
        )
        assert earlier.others == (FIRST,)
        assert earlier.overlapping == earlier.same_runs == ()
        assert earlier.margin is None
        assert earlier.remarks(0.01) == [
            "Second study of this change on this text, after studies/a (not decided): p is corrected over all 2."
        ]

    def test_the_same_plan_in_another_folder_is_the_same_study(self):
        assert Earlier.of(replace(FIRST, study="elsewhere"), [FIRST]) == Earlier()

    def test_the_same_runs_among_fewer_changes_keep_their_correction(self):
        again = replace(FIRST, plan="plan c")
        earlier = Earlier.of(again, [FIRST])
        assert earlier.others == ()
        assert earlier.floor == 0.2
        assert over_studies(earlier, 0.04) == 0.2
        assert earlier.remarks(0.01) == []

    def test_a_wider_margin_on_the_same_runs_does_not_count(self):
        wider = Earlier.of(replace(FIRST, plan="plan c", margin=0.05), [FIRST])
        assert wider.margin == 0.01
        assert "margin of 0.01, which stands" in wider.remarks(0.05)[0]

    def test_more_of_the_same_seeds_are_an_attempt_and_marked(self):
        more = Earlier.of(replace(FIRST, plan="plan c", seeds=16, rules="other"), [FIRST])
        assert more.others == more.overlapping == (FIRST,)
        assert more.remarks(0.01)[1] == "Some of these runs were judged before in studies/a."

    def test_holm_over_the_attempts(self):
        three = Earlier(others=(FIRST, replace(FIRST, p=None)))
        assert over_studies(three, 0.01) == pytest.approx(0.03)
        assert over_studies(Earlier(), 0.01) == 0.01

    def test_comes_back_from_its_plain_form(self):
        earlier = Earlier.of(NOW, [FIRST])
        assert Earlier.from_plain(earlier.plain()) == earlier


class TestLedger:
    def test_keeps_what_it_was_told_and_replaces_what_the_same_plan_said(self, tmp_path):
        ledger = Ledger.beside(tmp_path / "study")
        assert ledger.attempts() == []
        ledger.record([FIRST])
        ledger.record([NOW, replace(FIRST, p=0.1)])
        assert ledger.attempts() == [NOW, replace(FIRST, p=0.1)]

    def test_damage_is_a_sentence(self, tmp_path):
        ledger = Ledger.beside(tmp_path / "study")
        ledger.record([FIRST])
        ledger.file.write_text('{"schema": 1, "attempts": [{"a": 1}]}')
        with pytest.raises(RunError, match="is damaged"):
            ledger.attempts()
        ledger.file.write_text('{"schema": 7, "attempts": []}')
        with pytest.raises(RunError, match="has schema 7"):
            ledger.attempts()


def verdict(earlier: Earlier, shift: float = -0.03, margin: float = 0.01):
    base = Trials("base", 3.0 + 0.1 * np.random.default_rng(0).normal(size=(8, 700)))
    effects = np.array([-1.5, -0.9, -0.5, -0.1, 0.1, 0.5, 0.9, 1.5])[:, None]
    change = Trials("alibi", base.values + shift + 0.03 * effects, earlier=earlier)
    return decide(base, [change], Rules((8,), LOSS, margin))[0]


def test_a_finding_must_hold_over_all_studies_of_the_change():
    assert verdict(Earlier()).verdict == "better"
    found = verdict(Earlier(others=(FIRST, FIRST, FIRST)))
    assert found.verdict == "not decided"
    assert "Fourth study of this change on this text" in found.sentence
    clear = verdict(Earlier(others=(FIRST,)), shift=-0.2)
    assert clear.verdict == "better"
    assert "corrected for 2 studies." in clear.headline


def test_shopping_for_a_margin_finds_nothing_the_same():
    assert verdict(Earlier(), 0.0, margin=0.05).verdict == "same"
    shopped = verdict(Earlier(overlapping=(FIRST,)), 0.0, margin=0.05)
    assert shopped.verdict == "not decided"
    assert "margin of 0.01, which stands" in shopped.sentence


@pytest.mark.slow
def test_five_studies_of_a_change_that_does_nothing_find_it_in_one_of_twenty():
    """Uncorrected: 21 %. Each study knows those before it."""
    rng, wrong, groups = np.random.default_rng(2), 0, 600
    for _ in range(groups):
        seen: list[Attempt] = []
        for number in range(5):
            d = rng.standard_normal((8, 1)) + 0.3 * rng.standard_normal((8, 40))
            base = Trials("base", np.zeros((8, 40)))
            own = replace(FIRST, plan=str(number), first_seed=8 * number)
            one = decide(base, [Trials("x", d, earlier=Earlier.of(own, seen))], Rules((8,), LOSS, 1e-9))[0]
            seen.append(replace(own, verdict=one.verdict, p=one.evidence.p_corrected))
            if one.verdict in ("better", "worse"):
                wrong += 1
                break
    assert wrong / groups <= 0.13  # five chances at the level of their own number: 5 + 2.5 + 1.7 + 1.25 + 1 %
