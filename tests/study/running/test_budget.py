"""What a study may spend: when it is used up, whether a later look can be paid, what a trial took."""

from __future__ import annotations

import pytest

from glassformer.evaluation.results import Evaluation
from glassformer.study.planning.plan import Trial
from glassformer.study.running.budget import Budget, seconds_of
from glassformer.study.running.trial_results import TrialResult


def test_without_hours_nothing_is_too_dear() -> None:
    budget = Budget(None, spent=1e9)
    assert not budget.used_up
    assert budget.incompatibility(8, 1000, [3600.0]) is None


def test_used_up_and_told() -> None:
    assert not Budget(1.0, spent=3600.0).used_up
    budget = Budget(0.5, spent=1801.0)
    assert budget.used_up
    assert (
        budget.used_up_message(7)
        == "The budget of 0.5 hours is used up: 7 trials are not started. A larger budget_hours continues from here."
    )


def test_a_look_costs_what_trials_took_on_average() -> None:
    budget = Budget(1.0, spent=3000.0)
    assert budget.incompatibility(16, 6, [50.0, 150.0]) is None  # 600 s, and 600 are left
    told = budget.incompatibility(16, 7, [50.0, 150.0])
    assert told is not None
    assert told.startswith("The look at 16 seeds would take about 11 min 40 s of computing, and 10 min")


def test_seconds_of_a_trial_by_its_own_recipe() -> None:
    recipe = {"training": {"batch_size": 4}, "model": {"context": 10}}
    trial = Trial("base", 0, {}, "base/seed-0")
    done = TrialResult(trial, "finished", tokens_per_second=100.0, evaluation=Evaluation("validation", {}, step=50))
    assert seconds_of(done, recipe) == pytest.approx(20.0)
    assert seconds_of(TrialResult(trial, "pending"), recipe) == 0.0
