"""A study is judged again from its values alone."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.foundation.errors import RunError
from glassformer.study.planning.conditions import Condition
from glassformer.study.statistics.evidence import Problem, Trials
from glassformer.study.study import Study
from glassformer.study.values_file import StudyValues, VariantValues, read_values, write_values

GOOD = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]


def test_values_come_back_to_the_last_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=(3, 5))
    values[1] = np.nan
    trials = {"base": Trials("base", values, {1: Problem.DIVERGED}), "late": Trials("late", np.empty((0, 5)), exploratory=True)}
    variants = {
        "base": VariantValues(trials["base"], np.array([1.0, 2.0]), 0.5, 840.0, 12.0, {"memory_bytes": 7.0}),
        "late": VariantValues(trials["late"], np.empty(0), conditions=(Condition("flops", "more", 1.0, 2.0),)),
    }
    study = StudyValues(variants, np.arange(5.0), True, ("n",), ("r",))
    write_values(tmp_path / "values.json", study, metric="loss")
    kept = read_values(tmp_path / "values.json")
    back, weights = kept.trials, kept.weights
    np.testing.assert_array_equal(back["base"].values, values)
    assert back["base"].problems == {1: Problem.DIVERGED}
    assert back["late"].values.shape == (0, 5)
    assert back["late"].exploratory
    assert kept.blocks
    assert (kept.variants["base"].seed_values.tolist(), kept.notes, kept.remarks) == ([1.0, 2.0], ("n",), ("r",))
    for name, own in variants.items():
        again = kept.variants[name]
        for key in ("spent", "tokens_per_second", "tokens", "measured", "conditions"):
            assert getattr(again, key) == getattr(own, key)
    np.testing.assert_array_equal(weights, np.arange(5.0))


def test_every_setting_that_was_tried_is_in_the_table(made_up, tmp_path):
    tune = {"grid": {"training.lr": [0.1, 0.2], "training.batch_size": [4, 8]}, "seeds": 2}
    study = made_up.study(tmp_path / "study", {"base": GOOD, "alibi": GOOD}, tune=tune)
    for trial in study.plan.tuning_trials():
        made_up.run(study.directory.trial(trial), {}, 1.0 + 0.1 * trial.point)
    again = Study.load(study.folder)
    rows = [row for row in again.to_dict()["tuning"] if row["variant"] == "base"]
    assert [(row["set"], row["loss"]["value"], row["loss"]["n"]) for row in rows] == [
        (point, pytest.approx(1.0 + 0.1 * at), 2) for at, point in enumerate(study.plan.tuning_points("base"))
    ]
    assert again.tuning_cells()[0] == ["variant", "training.lr", "training.batch_size", "loss", ""]


def test_a_setting_whose_runs_failed_shows_what_they_measured_and_why(made_up, tmp_path):
    tune = {"grid": {"training.lr": [0.1, 0.2]}, "seeds": 2}
    study = made_up.study(tmp_path / "study", {"base": GOOD}, tune=tune)
    for trial in study.plan.tuning_trials():
        made_up.run(study.directory.trial(trial), {}, 9.0 if trial.point else 1.0)
    again = Study.load(study.folder)
    good, bad = again.to_dict()["tuning"]
    assert (good["loss"]["value"], good["failed"]) == (pytest.approx(1.0), {})
    assert (bad["loss"]["value"], bad["failed"]) == (pytest.approx(9.0), {"collapsed": 2})
    assert np.isnan(again.tuning_values["base"][1]).all()
    assert again.tuning_cells()[2][-1] == "collapsed in 2 of 2"


def test_a_study_without_its_trials_says_the_same(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", {"base": [one + 0.5 for one in GOOD], "alibi": GOOD, "rotary": GOOD[::-1]})
    said = [verdict.to_dict() for verdict in study.verdicts]
    study.write()
    shutil.rmtree(tmp_path / "study" / "trials")
    assert [verdict.to_dict() for verdict in Study.load(tmp_path / "study").verdicts] == said


@pytest.fixture
def tuned(made_up, tmp_path) -> Study:
    """A study with tuning whose points differ, text that overlaps, and runs that patience ended."""
    tune = {"grid": {"training.lr": [0.1, 0.2, 0.3]}, "seeds": 2}
    study = made_up.study(tmp_path / "study", {"base": [one + 0.02 for one in GOOD], "alibi": GOOD}, tune=tune)
    rng = np.random.default_rng(0)
    for trial in study.plan.tuning_trials():
        made_up.run(study.directory.trial(trial), {}, 1.0 + 0.05 * rng.normal())
    for file in study.folder.glob("trials/*/*/environment.json"):
        document = json.loads(file.read_text())
        document["data"]["notes"] = ["3 of 600 documents also occur in train, for example 'abc'"]
        file.write_text(json.dumps(document))
    return Study.load(study.folder)


def told(study: Study) -> tuple[object, ...]:
    return [one.to_dict() for one in study.verdicts], study.table, study.notes


def test_without_its_trials_luck_notes_and_table_are_the_same(tuned):
    before = told(tuned)
    assert tuned.values.trials["alibi"].tuning_variance > 0
    assert "too optimistic" in tuned.verdicts[0].sentence
    tuned.write()
    shutil.rmtree(tuned.folder / "trials")  # what was tuned stays
    assert told(Study.load(tuned.folder)) == before
    shutil.rmtree(tuned.folder / "tuning")
    again = Study.load(tuned.folder)
    assert told(again) == before
    assert ", 6 seeds, " in again.report().read_text(encoding="utf-8")


def test_without_the_runs_of_its_tuning_the_luck_stays_in_the_interval(tuned):
    before = told(tuned)
    tuned.write()
    shutil.rmtree(tuned.folder / "tuning")
    assert told(Study.load(tuned.folder)) == before


def test_damage_is_a_sentence(tmp_path):
    (tmp_path / "values.json").write_text("[]")
    with refused(RunError, "damaged-values"):
        read_values(tmp_path / "values.json")
