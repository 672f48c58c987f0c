"""The studies of several sets in one folder: begun, read, written; what is refused."""

from __future__ import annotations

import json

from tests.refusals import refused

from glassformer.foundation.errors import RunError
from glassformer.study.several_studies import SetStudy


def test_one_verdict_per_change_over_all_sets(sets):
    assert [(one.variant, one.verdict) for one in sets.verdicts] == [("alibi", "better"), ("none", "better")]
    assert str(sets).startswith("Over all sets\n[better] alibi is better over 3 sets: loss lower by ")
    assert repr(sets).endswith("alibi: better, none: better)")


def test_a_notebook_shows_the_verdicts_over_all_and_each_study(sets):
    shown = sets._repr_html_()
    assert "<strong>alibi</strong> is better over 3 sets" in shown
    assert shown.count("<details>") == 3


def test_what_it_keeps_is_what_it_says(sets):
    sets.write()
    kept = json.loads((sets.folder / SetStudy.FILE).read_text())
    assert kept["names"] == ["a", "b", "c"]
    assert kept["verdicts"] == sets.to_dict()["verdicts"]
    assert set(kept["sets"]) == {"a", "b", "c"}
    assert SetStudy.load(sets.folder).verdicts == sets.verdicts


def test_another_beginning_is_refused(sets):
    SetStudy.begin(sets.folder, ["a", "b", "c"])
    with refused(RunError, "other-sets", "a, b, c", "a, d"):
        SetStudy.begin(sets.folder, ["a", "d"])


def test_damage_is_a_sentence(tmp_path):
    (tmp_path / SetStudy.FILE).write_text('{"schema": 7}')
    with refused(RunError, "other-schema", "7"):
        SetStudy.load(tmp_path)
    (tmp_path / SetStudy.FILE).write_text('{"schema": 1}')
    with refused(RunError, "damaged"):
        SetStudy.load(tmp_path)
