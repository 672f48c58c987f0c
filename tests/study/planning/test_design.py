"""Paired or against a bank: chosen before the first run; and the noise that kept runs show."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.study.planning.design import choose_design, expected_power, run_noise
from glassformer.study.planning.plan import FIRST_TUNING_SEED, StudyPlan

MODEL = {"base": "x", "changes": [{"name": "alibi", "set": {"model.positions": "alibi"}}], "seeds": 6}


OTHERS = range(100, 140)
"""Seeds of stored baseline runs that the changes do not have."""


def test_pairs_unless_a_bank_is_requested():
    plan, why = choose_design(StudyPlan.parse(MODEL), OTHERS, "paired")
    assert (plan.design, plan.bank, why) == ("paired", (), "")
    earlier = StudyPlan.parse({**MODEL, "design": "bank", "bank": list(range(20))})
    assert choose_design(earlier, OTHERS, "paired")[0].design == "paired"


def test_a_bank_has_32_runs_with_other_seeds_than_the_changes_and_than_tuning():
    stored = [*range(6), *OTHERS, *range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + 20)]
    plan, _ = choose_design(StudyPlan.parse(MODEL), stored, "bank")
    assert (plan.design, plan.bank) == ("bank", tuple(OTHERS))
    assert len(choose_design(StudyPlan.parse(MODEL), range(100, 300), "bank")[0].bank) == 64
    with refused(ConfigError, "too-few-stored-runs", "32", "26"):
        choose_design(StudyPlan.parse(MODEL), range(32), "bank")


def test_a_bank_with_a_bad_run_is_refused_and_nothing_is_left_out_of_it():
    with refused(ConfigError, "unusable-stored-runs", "seeds 103 and 105"):
        choose_design(StudyPlan.parse(MODEL), OTHERS, "bank", [103, 105])
    assert choose_design(StudyPlan.parse(MODEL), OTHERS, "bank", [FIRST_TUNING_SEED])[0].design == "bank"


def test_the_power_is_told_in_the_unit_of_the_metric():
    plan = StudyPlan.parse({**MODEL, "seeds": 8})
    # 1.21 standard deviations of a difference, which is sqrt(2) times that of a run: 1.21 * 1.414 * 0.01
    stored = 1.0 + 0.01 * np.array([-1.0, 1.0] * 6) * np.sqrt(11 / 12)  # a standard deviation of .01
    assert "8 seeds detect a difference of about 0.017 with 80 % power" in expected_power(plan, stored)
    assert expected_power(plan, stored[:3]) == ""
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
