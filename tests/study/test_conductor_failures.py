"""Trials that fail, are damaged or are stopped, in a study of made-up trials: said, set aside, tried again."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from tests.refusals import refused
from tests.study.conducted import MakesUp, effects, entries, words

from glassformer.foundation.errors import ConfigError, Interrupted
from glassformer.study.study import Study


class TestFailures:
    @pytest.mark.parametrize(
        "answer", [{"status": "failed", "reason": "ZeroDivisionError"}, {"lost": "its process ended by signal 9"}]
    )
    def test_a_failed_trial_makes_its_change_invalid_and_is_tried_again_next_time(self, conduct, answer):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            return answer if (variant, seed) == ("alibi", 3) else effects(alibi=-0.1)(variant, seed, recipe)

        study, executor, _ = conduct(loss)
        assert words(study) == {"alibi": "invalid", "rotary": "same"}
        assert "no result in 1 of 6 seeds (seed 3)" in study.verdict("alibi").reason
        assert words(Study.load(study.folder))["alibi"] == "invalid"
        study, executor, _ = conduct(effects(alibi=-0.1))
        assert executor.done == ["alibi, seed 3"]
        assert words(study) == {"alibi": "better", "rotary": "same"}

    def test_a_bad_baseline_saves_the_changes(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            return 5.0 if variant == "base" and seed in (0, 2) else effects()(variant, seed, recipe)

        study, executor, said = conduct(loss)
        assert set(words(study).values()) == {"invalid"}
        assert "in 2 of 6 seeds (seeds 0 and 2); nothing can be compared with it" in study.verdicts[0].reason
        assert executor.done[3:] == [f"base, seed {seed}" for seed in range(6)]
        assert any("12 trials of changes are not started" in sentence for sentence in said)
        _, executor, said = conduct(loss)  # gone on with: they are not begun then, either
        assert executor.done == []
        assert any("12 trials of changes are not started" in sentence for sentence in said)

    def test_what_the_user_must_mend_ends_the_study_with_a_sentence(self, conduct):
        unknown = {"status": "refused", "reason": "model.merge has no 'mine'.", "exit_code": 2, "code": "unknown-name"}
        with refused(ConfigError, "unknown-name", "must be moved to such a file"):
            conduct(lambda *_: unknown)
        assert conduct.executor.closed

    def test_a_change_that_cannot_run_costs_its_own_verdict_only(self, conduct):
        refused = {"status": "refused", "reason": "no such thing", "exit_code": 2, "everywhere": False}
        study, _, _ = conduct(lambda variant, *more: refused if variant == "alibi" else effects()(variant, *more))
        assert words(study) == {"alibi": "invalid", "rotary": "same"}
        assert any("no such thing" in note for note in study.notes)

    def test_nor_does_one_that_cannot_be_inspected(self, conduct, monkeypatch):
        answer = MakesUp.answer

        def failing(self: MakesUp, task: Any) -> dict[str, Any]:
            fails = task.kind == "inspect" and task.label == "alibi"
            return {"status": "failed", "reason": "mine.py, line 12: no"} if fails else answer(self, task)

        monkeypatch.setattr(MakesUp, "answer", failing)
        study, executor, _ = conduct(effects())
        assert words(study) == {"alibi": "invalid", "rotary": "same"}
        assert "mine.py, line 12" in study.verdict("alibi").sentence
        assert "cheats" not in study.verdict("alibi").sentence
        assert not any(label.startswith("alibi, ") for label in executor.done)

    def test_a_damaged_trial_is_said_set_aside_and_run_again(self, conduct, tmp_path):
        study, _, _ = conduct(effects(alibi=-0.1))
        before = study.to_dict()
        folder = tmp_path / "study" / "trials" / "alibi" / "seed-4"
        (folder / "evaluations" / "validation-step-24.json").write_text('{"half": ')
        study, executor, said = conduct(effects(alibi=-0.1))
        assert executor.done == ["alibi, seed 4"]
        assert any("seed-4 is damaged" in sentence and "run again" in sentence for sentence in said)
        assert (tmp_path / "study" / "damaged" / "trials-alibi-seed-4").is_dir()
        assert study.to_dict() == before


class TestStops:
    def test_a_signal_lets_the_study_end_and_go_on_later(self, conduct, tmp_path):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if (variant, seed) == ("rotary", 2):
                os.kill(os.getpid(), signal.SIGTERM)
            return effects(alibi=-0.1)(variant, seed, recipe)

        with pytest.raises(Interrupted, match="the same command resumes") as stopped:
            conduct(loss)
        assert stopped.value.exit_code == 143
        assert conduct.executor.closed
        assert any(sentence.startswith("Stopping") for sentence in conduct.said)
        assert [(line.name, line.word) for line in entries(tmp_path / "study")] == [("alibi", "begun"), ("rotary", "begun")]
        _, _, said = conduct(effects(), "rotary", first_seed=6, out="second")
        assert any(sentence.startswith("rotary: Study 2 of this question, after") for sentence in said)
        study, executor, _ = conduct(effects(alibi=-0.1))
        assert "base, seed 0" not in executor.done
        assert words(study) == {"alibi": "better", "rotary": "same"}

    def test_what_ends_before_a_run_of_a_change_was_no_attempt(self, conduct, tmp_path):
        refused = {"status": "refused", "reason": "no such key", "exit_code": 2}
        with pytest.raises(ConfigError):
            conduct(lambda variant, seed, recipe: effects()(variant, seed, recipe) if variant == "base" else refused)
        assert entries(tmp_path / "study") == []

    def test_a_trial_that_was_interrupted_ends_the_study(self, conduct):
        with pytest.raises(Interrupted) as stopped:
            conduct(lambda *_: {"status": "stopped", "reason": "Stopped.", "signal": 2})
        assert stopped.value.exit_code == 130
