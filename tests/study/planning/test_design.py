"""Paired or against a bank: chosen before the first run, with a reason; and the noise that kept runs show."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.study.planning.design import choose_design, expected_power, run_noise
from glassformer.study.planning.plan import FIRST_TUNING_SEED, StudyPlan

MODEL = {"base": "x", "changes": [{"name": "alibi", "set": {"model.positions": "alibi"}}], "seeds": 6}
RATE = {**MODEL, "changes": [{"name": "rate", "set": {"training.lr": 0.1}}]}


def chosen(values, kept, wanted="auto"):
    plan, why = choose_design(StudyPlan.parse(values), range(kept), wanted)
    return plan.design, len(plan.bank), why


def test_a_change_of_the_model_goes_against_a_large_bank():
    assert chosen(MODEL, 32)[:2] == ("bank", 32)
    assert "runs of one seed are not correlated" in chosen(MODEL, 32)[2]
    assert chosen(MODEL, 200)[1] == 64


def test_everything_else_is_paired_and_says_why():
    design, runs, why = chosen(MODEL, 8)
    assert (design, runs) == ("paired", 0)
    assert "8 runs of this baseline are stored; from 16 on, they are used" in why
    assert chosen(RATE, 32)[:2] == ("paired", 0)
    assert "for changes of training.lr, runs of one seed are often correlated" in chosen(RATE, 32)[2]
    tuned = {**MODEL, "tune": {"grid": {"training.lr": [0.1, 0.2]}}}
    assert "tuned variants" in chosen(tuned, 32)[2]
    assert chosen(MODEL, 32, "paired") == ("paired", 0, "Baseline and changes are paired by seed, as requested.")


def test_a_bank_that_was_asked_for_needs_runs():
    assert chosen(RATE, 6, "bank")[:2] == ("bank", 6)
    with refused(ConfigError, "too-few-stored-runs", "6", "5"):
        chosen(MODEL, 5, "bank")


def test_a_design_of_an_earlier_run_of_the_plan_does_not_stand():
    earlier = {**MODEL, "design": "bank", "bank": list(range(20))}
    assert chosen(earlier, 20, "paired")[:2] == ("paired", 0)
    assert chosen(earlier, 8)[:2] == ("paired", 0)
    assert chosen(earlier, 32)[:2] == ("bank", 32)


def test_runs_that_settings_were_chosen_by_are_no_bank():
    kept = [*range(6), *range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + 20)]
    assert choose_design(StudyPlan.parse(MODEL), kept, "auto")[0].design == "paired"
    assert choose_design(StudyPlan.parse(MODEL), kept, "bank")[0].bank == tuple(range(6))


def test_a_bank_with_a_bad_run_is_not_used_and_nothing_is_left_out_of_it():
    plan, why = choose_design(StudyPlan.parse(MODEL), range(20), "auto", [3])
    assert plan.design == "paired"
    assert "1 of the 20 stored runs of this baseline failed" in why
    with refused(ConfigError, "unusable-stored-runs", "seeds 3 and 5"):
        choose_design(StudyPlan.parse(MODEL), range(20), "bank", [3, 5])
    assert choose_design(StudyPlan.parse(MODEL), range(20), "auto", [FIRST_TUNING_SEED])[0].design == "bank"


def test_the_power_is_told_in_the_unit_of_the_metric():
    plan = StudyPlan.parse({**MODEL, "seeds": 8})
    # 1.16 standard deviations of a difference, which is sqrt(2) times that of a run: 1.16 * 1.414 * 0.01
    assert "8 seeds detect a difference of about 0.016 nats per token with 80 % power" in expected_power(plan, 0.01, 12)
    assert run_noise(np.array([1.0, 1.1, 1.2])) is None
    assert run_noise(np.array([1.0, 1.1, 1.2, 1.3])) == pytest.approx(0.1291, abs=1e-4)


def test_a_study_against_a_bank_is_judged_without_pairs(made_up, tmp_path):
    rng = np.random.default_rng(0)
    base = list(1.5 + 0.01 * rng.standard_normal(20))
    study = made_up.study(
        tmp_path / "study",
        {"base": base, "alibi": list(1.2 + 0.01 * rng.standard_normal(6))},
        design="bank",
        bank=list(range(20)),
    )
    verdict = study.verdicts[0]
    assert verdict.verdict == "better"
    assert (verdict.evidence.seeds, verdict.evidence.base_runs) == (6, 20)
    assert len(study.finished("base")) == 20
    assert len(study.finished("alibi")) == 6
