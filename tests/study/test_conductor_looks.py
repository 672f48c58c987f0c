"""How many seeds a study of made-up trials takes: planned looks, and a budget of hours."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from tests.study.conducted import effects, luck, words

from glassformer.foundation.errors import RunError
from glassformer.study.statistics.corrections import USUAL_LOOKS


class TestLooks:
    def test_seeds_are_added_only_for_what_is_undecided(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            own = {"alibi": -0.1, "rotary": 0.03 * np.sin(3.3 * seed)}.get(variant, 0.0)
            return 1.5 + luck(seed) + own + (0.0005 * np.cos(9.0 * seed) if variant == "alibi" else 0.0)

        study, _, _ = conduct(loss, seeds=None, looks=list(USUAL_LOOKS))
        assert words(study) == {"alibi": "better", "rotary": "not decided"}
        seeds = {name: len(study.finished(name)) for name in ("base", "alibi", "rotary")}
        assert seeds == {"base": 16, "alibi": 6, "rotary": 16}

    def test_all_decided_at_the_first_look(self, conduct):
        study, executor, _ = conduct(effects(alibi=-0.1), seeds=None, max_seeds=16)
        assert words(study) == {"alibi": "better", "rotary": "same"}
        assert len(study.finished("base")) == 6
        step_flops, steps, runs, gpus = 7, 24, 3 * 16, 2
        assert executor.planned == {step_flops * steps * runs / gpus}  # every trial is told the same, at every look

    def test_interrupted_between_looks_it_ends_the_same(self, conduct, tmp_path):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            return 1.5 + luck(seed) + (0.03 * np.sin(3.3 * seed) if variant == "rotary" else 0.0)

        plan = {"seeds": None, "max_seeds": 16}

        def mortal(variant: str, seed: int, recipe: Any) -> Any:
            return {"status": "refused", "reason": "no room", "exit_code": 1} if seed == 6 else loss(variant, seed, recipe)

        with pytest.raises(RunError, match="no room"):
            conduct(mortal, "rotary", **plan)
        interrupted, _, _ = conduct(loss, "rotary", **plan)
        os.rename(tmp_path / "study", tmp_path / "interrupted")
        whole, _, _ = conduct(loss, "rotary", **plan)
        assert len(whole.finished("rotary")) == 16
        assert [one.to_dict() for one in whole.verdicts] == [one.to_dict() for one in interrupted.verdicts]


class TestBudget:
    def test_no_trial_is_begun_beyond_it(self, conduct):
        study, executor, said = conduct(effects(), "alibi", budget_hours=4.5)  # every trial takes an hour
        assert executor.done[2:] == ["base, seed 0", "alibi, seed 0", "base, seed 1", "alibi, seed 1", "base, seed 2"]
        assert any("budget of 4.5 hours is used up: 7 trials are not started" in sentence for sentence in said)
        assert study.verdicts[0].verdict == "not decided"
        study, executor, _ = conduct(effects(), "alibi", budget_hours=100.0)  # a larger one goes on
        assert len(executor.done) == 7
        assert words(study) == {"alibi": "same"}

    def test_a_look_that_would_go_beyond_it_is_not_begun(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            return 1.5 + luck(seed) + (0.03 * np.sin(3.3 * seed) if variant == "rotary" else 0.0)

        # made-up trials say 1680 tokens at 840 a second: 2 s each, 24 s for the first look, 8 s for the second
        study, _, said = conduct(loss, "rotary", seeds=None, max_seeds=16, seconds=2.0, budget_hours=30 / 3600)
        assert any("The look at 8 seeds would take about 8 s" in sentence for sentence in said)
        assert len(study.finished("base")) == 6
        study, _, _ = conduct(loss, "rotary", seeds=None, max_seeds=16, seconds=2.0, budget_hours=40 / 3600)
        assert len(study.finished("base")) == 8

    def test_what_was_taken_from_earlier_studies_costs_nothing(self, conduct, store):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            return 1.5 + luck(seed) + (0.03 * np.sin(3.3 * seed) if variant == "rotary" else 0.0)

        conduct(loss, "rotary", seeds=7, seconds=2.0, out="first", store=store)
        # 14 of 16 trials are kept: two of 2 s are left to be trained for the look at 8
        hours = 5 / 3600
        study, executor, said = conduct(
            loss, "rotary", seeds=None, looks=[6, 8], seconds=2.0, budget_hours=hours, out="second", store=store
        )
        assert executor.done[2:] == ["base, seed 7", "rotary, seed 7"]
        assert len(study.finished("rotary")) == 8
        assert not any("budget" in sentence for sentence in said)
