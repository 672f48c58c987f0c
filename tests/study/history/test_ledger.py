"""All studies of one question as one group-sequential study: what is pooled, what only spends, what stands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.foundation.errors import RunError
from glassformer.foundation.metrics import LOSS
from glassformer.study.history.ledger import Attempt, Earlier, Ledger, pack, unpack
from glassformer.study.statistics.corrections import FIRST_STUDY, study_share
from glassformer.study.statistics.evidence import Problem, Trials
from glassformer.study.statistics.verdict import Rules, decide

N, M = 8, 5
ROWS = np.random.default_rng(3).normal(-0.02, 0.03, (N, M))
SETTINGS = {"training.lr": 0.003, "training.steps": 100, "model.norm": "rms", "training.compile": False}
FIRST = Attempt(
    "studies/a", "plan a", "q", "code", "alibi", 0.01, tuple(range(N)), SETTINGS, {"model.positions": "alibi"},
    word="not decided", analyses=((N, FIRST_STUDY),), runs=N, base_means=tuple(np.linspace(3.0, 3.1, N)),
    differences=pack(ROWS),
)  # fmt: skip
NOW = replace(FIRST, study="studies/b", plan="plan b", labels=tuple(range(8, 16)), word="begun", analyses=(), differences=None)


def test_numbers_come_back_exactly():
    np.testing.assert_array_equal(unpack(pack(ROWS), N), ROWS)


class TestEarlier:
    def test_a_second_study_is_analysed_with_the_seeds_of_the_first(self):
        earlier = Earlier.of(NOW, [FIRST, replace(FIRST, question="other", sets={"model.positions": "t5"})])
        labels, base_means, rows = earlier.rows()
        assert labels == FIRST.labels
        assert base_means == list(FIRST.base_means)
        np.testing.assert_array_equal(np.stack(rows), ROWS)
        looks = earlier.looks((8,), 0.05)
        assert (looks.pooled, looks.before, looks.share) == (8, ((8, 0.8),), pytest.approx(0.1))
        assert earlier.number == 2

    def test_other_code_spends_and_is_not_pooled(self):
        earlier = Earlier.of(NOW, [replace(FIRST, code="before the update")])
        assert earlier.rows()[0] == ()
        looks = earlier.looks((8,), 0.05)
        assert (looks.pooled, looks.before, looks.share) == (0, (), pytest.approx(0.1))
        assert looks.threshold(0, 1) == pytest.approx(0.005)

    @pytest.mark.parametrize(
        ("key", "value", "near"),
        [("training.lr", 0.0030001, True), ("training.lr", 0.0033, True), ("training.lr", 0.0034, False),
         ("model.norm", "layer", False), ("training.compile", True, False)],
    )  # fmt: skip
    def test_a_baseline_that_moves_by_less_than_a_tenth_spends_and_is_never_pooled(self, key, value, near):
        other = replace(FIRST, question="q2", base={**SETTINGS, key: value})
        earlier = Earlier.of(NOW, [other])
        assert earlier.studies == ((other,) if near else ())
        assert earlier.rows()[0] == ()
        assert earlier.number == 1 + near
        assert earlier.margin is None  # the margin belongs to the question itself
        assert not replace(other, sets={"model.positions": "t5"}).neighbours(NOW)

    @pytest.mark.parametrize(("rate", "near"), [(0.0030001, True), (0.0032, True), (0.004, False)])
    def test_a_change_that_moves_by_less_than_a_tenth_spends_too(self, rate, near):
        one = replace(FIRST, question="one", sets={"training.lr": 0.003})
        other = replace(NOW, question="other", sets={"training.lr": rate})
        assert one.neighbours(other) is near
        earlier = Earlier.of(other, [one])
        assert (earlier.number, earlier.rows()[0]) == (1 + near, ())

    def test_the_same_plan_in_another_folder_is_the_same_study(self):
        assert Earlier.of(replace(FIRST, study="elsewhere"), [FIRST]).studies == ()
        assert Earlier.of(replace(FIRST, code="updated"), [FIRST]).studies == ()  # the same folder, continued after an update

    def test_the_first_margin_stands(self):
        earlier = Earlier.of(replace(NOW, margin=0.5), [FIRST, replace(FIRST, plan="c", margin=0.2)])
        assert earlier.margin == 0.01
        assert earlier.remarks(0.5)[-1] == "The margin of the first study, 0.01, stands; 0.5 is exploratory."

    def test_a_pilot_and_an_invalid_study_spend_nothing(self):
        pilot = replace(
            FIRST, labels=(0, 1, 2), runs=3, analyses=(), differences=pack(ROWS[:3]), base_means=FIRST.base_means[:3]
        )
        invalid = replace(FIRST, plan="c", word="invalid", analyses=(), differences=None)
        earlier = Earlier.of(NOW, [pilot, invalid])
        assert earlier.number == 1
        assert earlier.share == FIRST_STUDY
        assert earlier.rows()[0] == (0, 1, 2)  # nothing is thrown away
        looks = earlier.looks((8,), 0.05)
        assert (looks.pooled, looks.before) == (3, ())
        assert looks.threshold(0, 1) == pytest.approx(0.04)

    def test_a_study_that_was_begun_spends_unless_it_could_not_decide(self):
        assert Earlier.of(NOW, [replace(FIRST, word="begun", analyses=(), differences=None)]).number == 2
        assert Earlier.of(NOW, [replace(FIRST, word="begun", analyses=(), differences=None, labels=(0, 1))]).number == 1

    def test_more_of_the_same_seeds_go_on_where_the_first_study_ended(self):
        more = Earlier.of(replace(NOW, labels=tuple(range(16))), [FIRST])
        assert more.rows()[0] == ()  # they are its own
        looks = more.looks((16,), 0.05)
        assert (looks.pooled, looks.before) == (0, ((8, 0.8),))
        assert looks.spent(1) == [(16, pytest.approx(0.1))]

    def test_the_same_seeds_again_are_the_same_analysis_among_as_many_changes(self):
        again = Earlier.of(replace(NOW, labels=FIRST.labels), [replace(FIRST, left=5)])
        looks = again.looks((8,), 0.05)
        assert looks.threshold(0, 1) == pytest.approx(0.04)
        assert looks.spent(1) == []
        assert again.left == 5
        assert ["chance of a false alarm" in one.remarks(0.01)[0] for one in (again, Earlier.of(NOW, [FIRST]))] == [False, True]

    def test_failed_runs_are_counted_over_all_studies_by_the_same_code(self):
        failed = replace(FIRST, word="invalid", failed=(2, 5), base_failed=(5,), analyses=(), differences=None)
        assert Earlier.of(NOW, [failed]).failures() == (2, 1, 8)
        assert Earlier.of(NOW, [replace(failed, code="before")]).failures() == (0, 0, 0)
        assert Earlier.of(replace(NOW, labels=tuple(range(4, 12))), [failed]).failures() == (1, 0, 4)  # 5 is its own

    def test_comes_back_from_its_plain_form(self):
        earlier = Earlier.of(NOW, [FIRST])
        assert Earlier.from_dict(earlier.to_dict()) == earlier

    def test_the_shares_sum_to_all_of_alpha(self):
        assert [study_share(number) for number in (1, 2, 3, 4)] == pytest.approx([0.8, 0.1, 1 / 30, 1 / 60])
        assert sum(study_share(number) for number in range(1, 10_000)) == pytest.approx(1.0, abs=1e-4)


class TestLedger:
    def test_replaces_what_the_same_plan_stored_in_its_place(self, tmp_path):
        ledger = Ledger(tmp_path / "ledger.json")
        assert ledger.attempts() == []
        ledger.record([FIRST])
        ledger.record([NOW, replace(FIRST, word="better")])
        assert ledger.attempts() == [replace(FIRST, word="better"), NOW]

    def test_a_study_stands_in_it_from_its_beginning(self, tmp_path):
        ledger, begun = Ledger(tmp_path / "ledger.json"), replace(FIRST, word="begun")
        assert ledger.begin([begun]) == []
        assert ledger.begin([NOW]) == [begun]
        ledger.withdraw([replace(begun, study="elsewhere"), replace(begun, code="other")])
        assert ledger.attempts() == [begun, NOW]  # another folder's stays
        ledger.record([FIRST])
        ledger.withdraw([FIRST, NOW])
        assert ledger.attempts() == [FIRST]  # one that has an end stays
        assert ledger.begin([replace(begun, study="elsewhere")]) == [FIRST]  # the same plan: its end stays
        assert ledger.attempts() == [FIRST]

    def test_a_text_and_a_metric_have_a_file(self, monkeypatch, tmp_path):
        monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
        files = {Ledger.of(*what).file for what in (("t", "loss"), ("t", "accuracy"), ("u", "loss"), ("t", "loss"))}
        assert len(files) == 3
        assert {file.parent for file in files} == {tmp_path / "ledger"}

    def test_damage_is_a_sentence(self, tmp_path):
        ledger = Ledger(tmp_path / "ledger.json")
        ledger.file.write_text('{"schema": 3, "attempts": [{"a": 1}]}')
        with refused(RunError, "damaged-ledger", str(ledger.file)):
            ledger.attempts()
        ledger.file.write_text('{"schema": 2, "attempts": []}')
        with refused(RunError, "other-schema", "2"):
            ledger.attempts()


def verdict(earlier: Earlier, shift: float = -0.03, margin: float = 0.01, **more):
    base = Trials("base", 3.0 + 0.1 * np.random.default_rng(0).normal(size=(8, M)))
    effects = np.array([-1.5, -0.9, -0.5, -0.1, 0.1, 0.5, 0.9, 1.5])[:, None]
    change = Trials("alibi", base.values + shift + 0.03 * effects, earlier=earlier, **more)
    return decide(base, [change], Rules((8,), LOSS, margin), labels=NOW.labels)[0]


def test_the_second_study_decides_by_all_seeds():
    found = verdict(Earlier.of(NOW, [FIRST]))
    assert found.evidence.seed_labels == tuple(range(16))
    assert found.evidence.earlier_seeds == 8
    own = np.array([-1.5, -0.9, -0.5, -0.1, 0.1, 0.5, 0.9, 1.5]) * 0.03 - 0.03
    assert found.evidence.seed_differences == pytest.approx((*ROWS.mean(axis=1), *own))
    assert found.difference.value == pytest.approx(np.mean([*ROWS.mean(axis=1), *own]))
    assert found.evidence.value - found.evidence.base_value == pytest.approx(found.difference.value)
    assert found.analyses == ((8, pytest.approx(0.1)),)
    assert "Study 2 of this question" in found.sentence


def test_what_was_not_pooled_needs_ten_times_the_evidence():
    alone, second = verdict(Earlier()), verdict(Earlier.of(NOW, [replace(FIRST, code="before")]))
    assert (alone.verdict, second.verdict) == ("better", "not decided")
    assert second.evidence.p_corrected == pytest.approx(8 * alone.evidence.p_corrected)


def test_dropping_the_other_changes_does_not_lower_p():
    among_five = verdict(Earlier.of(replace(NOW, labels=FIRST.labels), [replace(FIRST, left=5)]))
    assert among_five.evidence.p_corrected == pytest.approx(5 * verdict(Earlier()).evidence.p_corrected)


def test_a_study_cannot_be_repeated_until_no_run_fails():
    failed = replace(FIRST, word="invalid", failed=(2, 5), analyses=(), differences=None)
    found = verdict(Earlier.of(NOW, [failed]), shift=-0.2)
    assert (found.verdict, found.reason) == ("invalid", "unstable")
    assert (found.rates["change"].failed, found.rates["change"].runs) == (2, 16)
    assert (found.rates["baseline"].failed, found.rates["baseline"].runs) == (0, 16)
    both = verdict(Earlier.of(NOW, [replace(failed, base_failed=(1, 2))]), shift=-0.2)
    assert both.verdict == "better"  # the baseline fails as often
    now = verdict(Earlier.of(NOW, [failed]), problems={0: Problem.DIVERGED})
    assert now.rates["change"].failed == 3


def test_shopping_for_a_margin_finds_nothing_the_same():
    assert verdict(Earlier(), 0.0, margin=0.05).verdict == "same"
    other = replace(FIRST, code="before")
    shopped = verdict(Earlier.of(replace(NOW, margin=0.05), [other]), 0.0, margin=0.05)
    assert shopped.verdict == "not decided"
    assert shopped.evidence.margin == 0.01
