"""Settings of a grid that make another model: one inspection each, its facts instead of the variant's, leaks told."""

from __future__ import annotations

from tests.study.conducted import FINDING, PASSED

from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.variants import Facts
from glassformer.study.running.tuned_settings import TunedSettings

PLAN = StudyPlan.parse({"base": "x", "tune": {"grid": {"model.layers": [1, 2], "training.lr": [0.1]}, "seeds": 3}})
VARIANTS = {"base": Facts("r", "d", "x", memory_bytes=4)}


def answer(*findings: dict) -> dict:
    figures = {"parameters": 9, "step_flops": 7, "memory_bytes": 50, "steps": 24, "tokens": 1680, "device": "cpu"}
    return {"status": "finished", "check": {**PASSED, "findings": list(findings)}, **figures}


def test_each_model_is_inspected_once_whatever_its_seeds():
    settings, trials = TunedSettings(), PLAN.tuning_trials()
    tasks = settings.tasks(PLAN, trials, lambda trial: dict(trial.set), {"cwd": "here"})
    assert [task.label for task in tasks] == ["base (setting 1 of its grid)", "base (setting 2 of its grid)"]
    assert [(task.kind, task.values["recipe"]["model.layers"]) for task in tasks] == [("inspect", 1), ("inspect", 2)]
    assert tasks[0].values["cwd"] == "here"
    assert settings.note(tasks[0].label, answer(), PLAN, VARIANTS) == []
    (told,) = settings.note(tasks[1].label, answer(FINDING), PLAN, VARIANTS)
    assert told.startswith("base with model.layers=2, training.lr=0.1 is not tried: causality")
    assert [settings.leaks(trial, VARIANTS) for trial in trials] == [False, True] * 3
    assert settings.facts(trials[0], VARIANTS).check == {**PASSED, "findings": []}
    assert settings.memory() == [50, 50]


def test_what_is_no_such_setting_has_the_facts_of_its_variant():
    rates = StudyPlan.parse({"base": "x", "tune": {"grid": {"training.lr": [0.1, 0.2]}, "seeds": 1}})
    settings = TunedSettings()
    assert settings.tasks(rates, rates.tuning_trials(), lambda trial: {}, {}) == []
    for trial in (*rates.tuning_trials(), *rates.trials()):
        assert settings.facts(trial, VARIANTS) is VARIANTS["base"]
        assert not settings.leaks(trial, VARIANTS)


def test_the_trials_that_decide_are_not_those_of_a_setting():
    settings = TunedSettings()
    (first, *_) = settings.tasks(PLAN, PLAN.tuning_trials(), lambda trial: {}, {})
    settings.note(first.label, answer(FINDING), PLAN, VARIANTS)
    assert settings.facts(PLAN.trials()[0], VARIANTS) is VARIANTS["base"]  # its point is 0, too
