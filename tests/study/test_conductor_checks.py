"""Models that break a law, in a study of made-up trials: invalid, not trained further, nothing of them kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.study.conducted import MakesUp, Tainted, effects, entries, luck, words

from glassformer.foundation.errors import CheckFailed, RunError
from glassformer.study.reporting.study_report import _taint
from glassformer.study.study import Study


class TestChecksFirst:
    def test_a_leaking_change_is_invalid_and_not_trained(self, conduct):
        study, executor, said = conduct(effects(), leaks=["alibi"])
        assert words(study) == {"alibi": "invalid", "rotary": "same"}
        assert not any(label.startswith("alibi, ") for label in executor.done)
        assert any(sentence.startswith("alibi is not trained: causality") for sentence in said)

    def test_a_leaking_baseline_stops_everything(self, conduct):
        with pytest.raises(CheckFailed, match="The baseline itself fails a check"):
            conduct(effects(), leaks=["base"])
        assert conduct.executor.done[-1] == "rotary"

    def test_a_leak_found_after_training_is_remembered(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if variant == "alibi" and seed == 0:
                return {"status": "leak", "reason": "sees the future once trained"}
            return effects()(variant, seed, recipe)

        study, executor, said = conduct(loss)
        assert words(study) == {"alibi": "invalid", "rotary": "same"}
        assert words(Study.load(study.folder))["alibi"] == "invalid"
        assert "alibi, seed 1" not in executor.done
        assert "alibi leaks once it is trained: 5 trials not started." in said
        assert [line.name for line in entries(study.folder)] == ["rotary"]  # nobody saw a figure of alibi
        assert study.verdict("alibi").sentence.startswith("alibi is invalid: it cheats once it is trained: sees the future")

    def test_a_leak_of_the_step_was_found_before_training(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            found = {"status": "leak", "reason": "causality at the compiled loss.", "before_training": True}
            return found if variant == "alibi" else effects()(variant, seed, recipe)

        study, _, said = conduct(loss)
        told = "alibi is invalid: it cheats in the step that trains it: causality at the compiled loss."
        assert study.verdict("alibi").sentence == told
        assert Study.load(study.folder).verdict("alibi").sentence == told
        assert "alibi leaks in the step that trains it: 5 trials not started." in said

    def test_a_step_that_only_differs_from_the_plain_one_does_not_cheat(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            reason = "path: the compiled step differs from the plain one: its loss by 0.5."
            found = {"status": "leak", "reason": reason, "before_training": True, "only_differs": True}
            return found if variant == "alibi" else effects()(variant, seed, recipe)

        study, _, said = conduct(loss)
        told = "alibi is invalid: the step that trains it differs from the plain step: path: the compiled step differs from"
        for one in (study, Study.load(study.folder)):
            verdict = one.verdict("alibi")
            assert verdict.sentence.startswith(told)
            assert verdict.reason == "it trains by a step that differs from the plain step in 6 of 6 seeds"
            (row,) = [row for row in one.table if row["variant"] == "alibi"]
            assert row["loss"]["reason"] == "the step that trains it differs from the plain step"
        assert "alibi trains by a step that differs from the plain step: 5 trials not started." in said

    def test_measured_all_the_same_it_is_told_what_that_step_gave(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            own = effects(alibi=-0.1)(variant, seed, recipe)
            return Tainted(own, before_training=True, only_differs=True) if variant == "alibi" else own

        study, _, _ = conduct(loss, "alibi", seeds=2, allow_leaks=True)
        sentence = study.verdict("alibi").sentence
        assert "the step that trains it differs from the plain step: it leaks. Trained by that step: loss lower by" in sentence
        assert "cheats" not in sentence
        assert "believed" not in sentence
        assert _taint(study) == "alibi: the step that trains it differs from the plain step."

    @pytest.mark.parametrize(
        ("before_training", "where"), [(True, "cheats in the step that trains it"), (False, "cheats once it is trained")]
    )
    def test_where_leaks_are_allowed_it_is_told_when_one_was_found(self, conduct, before_training, where):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            own = effects()(variant, seed, recipe)
            return Tainted(own, before_training=before_training) if variant == "alibi" else own

        study, _, _ = conduct(loss, "alibi", seeds=2, allow_leaks=True)
        assert where in study.verdict("alibi").sentence

    def test_a_tuned_setting_that_makes_another_model_is_checked_before_its_number_counts(self, conduct, monkeypatch):
        """The variant passes, and one setting of its grid does not, though it has the lowest loss."""
        checks: dict[str, Any] = {}
        answer = MakesUp.answer

        def noted(self: MakesUp, task: Any) -> dict[str, Any]:
            if task.kind == "trial" and "setting" in task.label:
                checks[task.label] = task.values["check"]
            told = answer(self, task)
            if task.kind == "inspect":
                told["check"] = {**told["check"], "subject": str(task.values["recipe"]["model"]["width"])}
            return told

        def loss(variant: str, seed: int, recipe: Any) -> float:
            return effects()(variant, seed, recipe) - 0.01 * recipe["model"]["width"]

        monkeypatch.setattr(MakesUp, "answer", noted)
        leaking = "alibi (setting 3 of its grid)"
        tune = {"grid": {"model.width": [12, 24, 36]}, "seeds": 2}
        study, executor, said = conduct(loss, "alibi", tune=tune, leaks=[leaking], allow_leaks=True)
        settings = [f"{name} (setting {at} of its grid)" for at in (1, 2, 3) for name in ("base", "alibi")]
        assert {label for label in executor.done if label.endswith("grid)") and "seed" not in label} == set(settings)
        assert not any(label.startswith("alibi, seed") and "setting 3" in label for label in executor.done)
        told = {(label.split("setting ")[1][0], check["subject"]) for label, check in checks.items()}
        assert told == {("1", "12"), ("2", "24"), ("3", "36")}  # each model's own check
        assert any(sentence.startswith("alibi with model.width=36 is not tried: causality") for sentence in said)
        tuned = {name: facts.tuned["model.width"] for name, facts in study.book.variants.items()}
        assert tuned == {"base": 36, "alibi": 24}
        assert study.book.variants["alibi"].leak is None
        assert any("model.width=24, the best of 2 that could be used of 3 settings" in sentence for sentence in said)
        assert conduct(loss, "alibi", tune=tune, leaks=[leaking], allow_leaks=True)[1].done == []

    def test_where_every_tuned_setting_fails_its_check_it_is_said(self, conduct):
        leaks = [f"alibi (setting {at} of its grid)" for at in (1, 2)]
        with pytest.raises(RunError, match=r"alibi failed with every setting of its grid \(a check failed\)"):
            conduct(effects(), "alibi", tune={"grid": {"model.width": [12, 24]}, "seeds": 1}, leaks=leaks)

    def test_of_a_model_that_leaks_once_trained_no_figure_is_given_and_nothing_is_kept(self, conduct, store):
        """Another seed was done, and kept, before the one that is checked after training."""

        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if variant == "alibi" and seed == 2:
                return {"status": "leak", "reason": "sees the future once trained"}
            return effects()(variant, seed, recipe)

        conduct(loss, "alibi", seeds=2, first_seed=0, out="pilot", store=store)
        assert len(store.entries()) == 4
        study, executor, _ = conduct(loss, "alibi", first_seed=2, store=store)
        assert len(executor.done) == 2 + 6 + 1
        assert {one["seed"] for one in store.entries()} == {0, 1, 2, 3, 4, 5, 6, 7}
        assert len(store.entries()) == 8  # the baseline's
        (row,) = [row for row in study.table if row["variant"] == "alibi"]
        assert row["loss"]["value"] is None

    def test_where_leaks_are_allowed_nothing_of_it_is_kept_either(self, conduct, store):
        """Only the first seed is checked after training, so only its figures are marked by themselves."""

        def loss(variant: str, seed: int, recipe: Any) -> float:
            own = effects()(variant, seed, recipe)
            return Tainted(own) if (variant, seed) == ("alibi", 0) else own

        study, executor, _ = conduct(loss, "alibi", seeds=2, allow_leaks=True, store=store)
        assert len(executor.done) == 2 + 4
        assert words(study) == {"alibi": "invalid"}
        assert [one["seed"] for one in store.entries()] == [0, 1]  # the baseline's
        assert study.book.variants["alibi"].leak == "it leaks"

    def test_the_seed_that_is_checked_after_training_is_taken_only_from_what_was_checked(self, conduct, store):
        def dies(variant: str, seed: int, recipe: Any) -> Any:
            failed = {"status": "failed", "reason": "no room"}
            return failed if (variant, seed) == ("alibi", 0) else effects()(variant, seed, recipe)

        conduct(dies, "alibi", seeds=3, store=store)  # seed 0, the one to be checked, gave nothing
        assert len(store.entries()) == 5
        _, executor, _ = conduct(effects(), "alibi", seeds=2, first_seed=1, out="second", store=store)
        assert executor.done[2:] == ["alibi, seed 1"]
        _, executor, said = conduct(effects(), "alibi", seeds=2, first_seed=1, out="third", store=store)
        assert executor.done[2:] == []
        assert any(sentence.startswith("4 of 4 trials are reused") for sentence in said)

    def test_of_a_bank_too_one_run_is_known_to_have_been_checked(self, conduct, store):
        def dies(variant: str, seed: int, recipe: Any) -> Any:
            return {"status": "failed", "reason": "no room"} if seed == 0 else effects()(variant, seed, recipe)

        conduct(dies, "alibi", seeds=33, store=store)  # the baseline's seeds 1 to 32 are stored, and none was checked
        study, executor, _ = conduct(effects(), "alibi", seeds=2, first_seed=40, out="second", store=store, baseline="bank")
        assert study.plan.bank == tuple(range(1, 33))
        assert executor.done[2:] == ["base, seed 1", "alibi, seed 40", "alibi, seed 41"]

    def test_the_other_changes_go_on_to_their_next_look(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if variant == "alibi":
                return {"status": "leak", "reason": "sees the future once trained"}
            return 1.5 + luck(seed) + (0.03 * np.sin(3.3 * seed) if variant == "rotary" else 0.0)

        study, _, _ = conduct(loss, seeds=None, looks=[6, 8])
        assert len(study.finished("rotary")) == 8
