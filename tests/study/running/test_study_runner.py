"""From a plan to verdicts with an executor that makes everything up: pairs, tuning, data that change on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.refusals import refused
from tests.study.conducted import MakesUp, effects, luck, words

from glassformer.foundation.errors import ConfigError, RunError


def test_a_plain_study_in_pairs(conduct):
    study, executor, _ = conduct(effects(alibi=-0.1))
    assert words(study) == {"alibi": "better", "rotary": "same"}
    assert executor.done[:6] == ["base", "alibi", "rotary", "base, seed 0", "alibi, seed 0", "rotary, seed 0"]
    assert len(executor.done) == 3 + 18
    assert executor.closed
    assert executor.warmed == [(18, 0)]  # processes for the trials start while the variants are inspected
    assert executor.needed[-1] == 5
    assert study.directory.results_file.is_file()


def test_done_again_nothing_is_run_and_the_table_is_the_same(conduct):
    first, _, _ = conduct(effects(alibi=-0.1))
    again, executor, _ = conduct(effects(alibi=99.0))
    assert executor.done == executor.warmed == []
    assert not executor.closed  # it was never opened
    assert again.to_dict() == first.to_dict()


GRID = {"grid": {"training.lr": [0.01, 0.1]}, "seeds": 2}


class TestTuning:
    def loss(self, variant: str, seed: int, recipe: Any) -> float:
        """Each variant has its own best rate."""
        best = {"base": 0.1, "alibi": 0.01}[variant]
        return 1.5 + luck(seed) + 3 * abs(recipe["training"]["lr"] - best) + 0.001 * np.cos(seed + len(variant))

    def test_every_variant_is_compared_at_its_own_best(self, conduct):
        study, executor, said = conduct(self.loss, "alibi", tune=GRID)
        tuning = [label for label in executor.done if "grid" in label]
        assert len(tuning) == 2 * 2 * 2
        assert {label.split("seed ")[1].split(" ")[0] for label in tuning} == {"1000000", "1000001"}
        rates = {name: facts.tuned["training.lr"] for name, facts in study.book.variants.items()}
        assert rates == {"base": 0.1, "alibi": 0.01}
        assert words(study) == {"alibi": "same"}
        assert any("alibi is tuned: training.lr=0.01, the best of 2 settings" in sentence for sentence in said)
        again, executor, _ = conduct(self.loss, "alibi", tune=GRID)
        assert executor.done == []
        assert again.to_dict() == study.to_dict()

    def test_a_search_without_changes_measures_what_it_found(self, conduct):
        study, executor, _ = conduct(self.loss, changes=[], tune=GRID)
        assert study.book.variants["base"].tuned == {"training.lr": 0.1}
        assert len([label for label in executor.done if "grid" in label]) == 4
        assert len(executor.done) == 4 + 1 + 6  # the grid, what is known of the variant, six seeds of the best setting
        assert words(study) == {}
        study.write()

    def test_a_setting_that_fails_is_not_chosen(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if recipe["training"]["lr"] == 0.1:
                return {"status": "diverged", "reason": "not finite"}
            return self.loss(variant, seed, recipe)

        study, _, _ = conduct(loss, "alibi", tune=GRID)
        assert {facts.tuned["training.lr"] for facts in study.book.variants.values()} == {0.01}

    def test_a_grid_that_the_budget_cut_off_chooses_nothing(self, conduct):
        study, executor, _ = conduct(self.loss, "alibi", tune=GRID, budget_hours=4.5)  # every trial takes an hour
        assert len([label for label in executor.done if "grid" in label]) == 5
        assert not any(facts.tuned for facts in study.book.variants.values())
        assert words(study) == {"alibi": "not decided"}
        study, _, _ = conduct(self.loss, "alibi", tune=GRID, budget_hours=100.0)
        assert {name: facts.tuned["training.lr"] for name, facts in study.book.variants.items()} == {"base": 0.1, "alibi": 0.01}
        assert words(study) == {"alibi": "same"}

    def test_other_tuning_seeds_are_tried_and_counted(self, conduct):
        study, executor, _ = conduct(self.loss, "alibi", tune=GRID, first_seed=8)
        tried = [label for label in executor.done if "setting" in label]
        assert {label.split("seed ")[1].split(" ")[0] for label in tried} == {"1008000", "1008001"}
        assert study.book.variants["alibi"].tuned == {"training.lr": 0.01}
        assert words(study) == {"alibi": "same"}  # the luck of tuning is read from these seeds

    def test_what_a_tuned_setting_costs_is_found_out_again(self, conduct):
        grid = {"grid": {"training.steps": [12, 24]}, "seeds": 2}
        _, executor, _ = conduct(self.loss, "alibi", tune=grid)
        assert executor.done.count("alibi") == executor.done.count("base") == 2  # inspected before tuning, and after it
        assert conduct(self.loss, "alibi", tune=grid)[1].done == []

    def test_the_text_that_decides_is_not_opened_to_choose(self, conduct, monkeypatch):
        """The test text is for the study's own runs: tuning is measured on validation."""
        opened: dict[str, set[str]] = {"tuning": set(), "trials": set()}
        answer = MakesUp.answer

        def noted(self: MakesUp, task: Any) -> dict[str, Any]:
            if task.kind == "trial":
                opened["tuning" if "grid" in task.label else "trials"].add(task.values["split"])
            return answer(self, task)

        monkeypatch.setattr(MakesUp, "answer", noted)
        monkeypatch.setattr("glassformer.study.planning.variant_data._require_same_text", lambda *_: None)
        monkeypatch.setattr("glassformer.study.planning.variant_data._require_unseen_text", lambda *_: None)
        monkeypatch.setattr("glassformer.study.planning.variant_data._items_checksum", lambda *_: "items")
        monkeypatch.setattr("glassformer.study.planning.variant_data._require_same_targets", lambda *_: None)
        monkeypatch.setattr("glassformer.study.planning.variant_data._sample_size_notes", lambda *_: [])
        study, _, said = conduct(self.loss, "alibi", tune=GRID, split="test")
        assert opened == {"tuning": {"validation"}, "trials": {"test"}}
        assert study.book.variants["alibi"].tuned == {"training.lr": 0.01}
        assert any("on validation)" in sentence for sentence in said)

    def test_the_only_setting_that_works_is_called_so(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            fails = recipe["training"]["lr"] == 0.1
            return {"status": "failed", "reason": "x"} if fails else self.loss(variant, seed, recipe)

        _, _, said = conduct(loss, "alibi", tune=GRID)
        assert any("training.lr=0.01, the only one that could be used of 2 settings" in sentence for sentence in said)

    def test_no_setting_that_works(self, conduct):
        with pytest.raises(RunError, match="base failed with every setting of its grid"):
            conduct(lambda *_: {"status": "failed", "reason": "x"}, "alibi", tune=GRID)


def test_a_parent_that_was_replaced_on_the_way_is_refused(conduct, monkeypatch):
    monkeypatch.setattr("glassformer.study.planning.variant_data.parent_checksum", lambda init_from: "weights")
    conduct(effects(), seeds=2)
    monkeypatch.setattr("glassformer.study.planning.variant_data.parent_checksum", lambda init_from: "other weights")
    with refused(ConfigError, "parent-changed"):
        conduct(effects(), "alibi", "rotary", "none", seeds=2)


def test_data_that_changed_on_the_way_are_refused(conduct, recipe, text_file, tmp_path):
    copy = tmp_path / "copy.txt"
    copy.write_text(text_file.read_text())
    recipe["data"]["path"] = str(copy)
    conduct(effects())
    copy.write_text(text_file.read_text() + "abcabc\n")
    with refused(ConfigError, "data-changed", "'base'"):
        conduct(effects())
