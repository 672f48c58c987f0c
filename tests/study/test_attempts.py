"""From a plan to the lines of the ledger, and from the ledger to what came before."""

from __future__ import annotations

import pytest

from glassformer.foundation.errors import ConfigError
from glassformer.study.attempts import attempts_of, note_earlier, refuse_same_runs
from glassformer.study.ledger import Ledger
from glassformer.study.study import Study

GOOD = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]
LOSSES = {"base": [one + 0.5 for one in GOOD], "alibi": GOOD}


def noted(study: Study):
    return note_earlier(study.plan, study.book, study.directory)


def test_a_study_is_one_line_for_each_change(made_up, tmp_path):
    study = made_up.study(tmp_path / "one", LOSSES)
    study.write()
    (line,) = Ledger.beside(study.folder).attempts()
    assert (line.name, line.verdict, line.first_seed, line.seeds, line.margin) == ("alibi", "better", 0, 6, 0.01)
    assert line.p == study.verdicts[0].evidence.p_corrected
    study.write()
    assert Ledger.beside(study.folder).attempts() == [line]


def test_what_came_before_is_written_once_and_stays(made_up, tmp_path):
    made_up.study(tmp_path / "one", LOSSES).write()
    second = made_up.study(tmp_path / "two", LOSSES, first_seed=6)
    assert [one.study for one in noted(second)["alibi"].others] == [str(tmp_path / "one")]
    made_up.study(tmp_path / "three", LOSSES, first_seed=12).write()
    assert len(noted(second)["alibi"].others) == 1
    assert "Second study of this change on this text" in Study.load(second.folder).verdicts[0].sentence


def test_the_same_plan_elsewhere_is_the_same_study(made_up, tmp_path):
    made_up.study(tmp_path / "one", LOSSES).write()
    again = made_up.study(tmp_path / "two", LOSSES)
    assert noted(again)["alibi"].others == noted(again)["alibi"].overlapping == ()
    assert attempts_of(again.plan, again.book, "x")[0].plan == Ledger.beside(again.folder).attempts()[0].plan


def test_other_rules_on_the_same_runs_are_refused_where_nobody_named_a_folder(made_up, tmp_path):
    made_up.study(tmp_path / "one", LOSSES).write()
    wider = made_up.study(tmp_path / "two", LOSSES, margin=0.3)
    with pytest.raises(ConfigError, match=r"seeds 0 to 5 \(better, margin 0.01\).*--first-seed 6"):
        refuse_same_runs(wider.plan, noted(wider), wider.plan.same_within)
    fresh = made_up.study(tmp_path / "three", LOSSES, first_seed=6)
    refuse_same_runs(fresh.plan, noted(fresh), fresh.plan.same_within)
