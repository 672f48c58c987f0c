"""From words to a plan: flags over a plan, bases beside it, built-in names, plans of several bases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.recipe import built_in_recipes, load_recipe, run_taken
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.plan_source import find_plan, several_bases


class TestPlans:
    def plan(self, recipe: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"base": recipe, "changes": [{"name": "none", "set": {"model.positions": "none"}}], **more}

    def test_flags_go_over_the_plan(self, recipe):
        plan, _, _ = find_plan(self.plan(recipe, seeds=6, margin=0.05), None, cross=False, set={"training.lr": 0.5}, seeds=9)
        assert (plan.seeds, plan.margin, plan.set) == (9, 0.05, {"training.lr": 0.5})

    def test_a_base_beside_the_plan_is_taken_into_it(self, recipe, tmp_path):
        folder = tmp_path / "plans"
        folder.mkdir()
        (folder / "base.yaml").write_text(dump_yaml({**recipe, "result": "something"}))
        (folder / "plan.yaml").write_text(dump_yaml(self.plan("base.yaml")))  # type: ignore[arg-type]
        plan, resolve, _ = find_plan(folder / "plan.yaml", None, cross=False, set={})
        assert plan.base["model"] == recipe["model"]
        assert resolve({})["model"]["width"] == 12

    def test_a_search_needs_no_changes(self, recipe, tmp_path):
        (tmp_path / "base.yaml").write_text(dump_yaml(recipe))
        searched = {"base": "base.yaml", "tune": {"grid": {"training.lr": [0.01, 0.1]}, "seeds": 4}}
        (tmp_path / "plan.yaml").write_text(dump_yaml(searched))
        plan, _, notes = find_plan(tmp_path / "plan.yaml", None, cross=False, set={})
        assert (plan.variants, notes) == (["base"], [])

    def test_fresh_seeds_are_fresh_for_tuning_too(self, recipe, tmp_path):
        tune = {"grid": {"training.lr": [0.01, 0.1]}, "seeds": 4}

        def seeds(plan: StudyPlan) -> set[int]:
            return {trial.seed for trial in plan.tuning_trials()}

        first, resolve, _ = find_plan(self.plan(recipe, tune=tune), None, cross=False, set={})
        by_flag, _, _ = find_plan(self.plan(recipe, tune=tune), None, cross=False, set={}, first_seed=8)
        by_plan, _, _ = find_plan(self.plan(recipe, tune=tune, first_seed=8), None, cross=False, set={})
        by_vary, _, _ = find_plan(recipe, {"model.positions": ["none"]}, cross=False, set={}, first_seed=8, tune=tune)
        assert seeds(by_flag) == seeds(by_plan) == seeds(by_vary)
        assert len(seeds(first)) == len(seeds(by_flag)) == 4
        assert not seeds(first) & seeds(by_flag)
        begun = StudyDirectory(tmp_path / "second")
        begun.begin(by_flag, resolve)
        assert seeds(find_plan(str(begun.root), None, cross=False, set={})[0]) == seeds(by_flag)
        third, _, _ = find_plan(str(begun.plan_file), None, cross=False, set={}, first_seed=9)
        assert not seeds(third) & (seeds(first) | seeds(by_flag))
        assert seeds(find_plan(str(begun.plan_file), None, cross=False, set={}, first_seed=0)[0]) == seeds(first)

    def test_a_study_of_an_earlier_version_goes_on_with_its_tuning_seeds(self, recipe, tmp_path):
        tune = {"grid": {"training.lr": [0.01, 0.1]}, "seeds": 4}
        asked, resolve, _ = find_plan(self.plan(recipe, tune=tune, first_seed=8), None, cross=False, set={})
        old = asked.model_copy(update={"tune": asked.tune.model_copy(update={"first_seed": None})})
        directory = StudyDirectory(tmp_path / "old")
        directory.begin(old, resolve)
        assert directory.continues(asked, resolve)
        for again in (asked, find_plan(str(directory.root), None, cross=False, set={})[0]):
            assert directory.begin(again, resolve)[0].tuning_trials() == old.tuning_trials()

    def test_a_built_in_recipe_keeps_its_name_and_a_built_in_study_has_one(self):
        plan, _, _ = find_plan("docstrings-char", {"model.positions": ["alibi"]}, cross=False, set={})
        assert plan.base == "docstrings-char"
        assert len(find_plan("positions", None, cross=False, set={})[0].changes) == 6

    def test_a_run_called_like_the_base_is_not_taken_for_it(self, recipe, tmp_path, monkeypatch):
        RunDirectory(tmp_path / "docstrings-char").write_recipe(recipe)
        monkeypatch.chdir(tmp_path)
        file = built_in_recipes()["docstrings-char"]
        plan, resolve, _ = find_plan(str(file), {"model.positions": ["alibi"]}, cross=False, set={})
        assert plan.base == "docstrings-char"
        assert resolve({})["model"]["width"] == load_recipe(file).model.width != recipe["model"]["width"]

    def test_which_of_two_was_taken_is_said(self, recipe, tmp_path, monkeypatch):
        vary = {"model.positions": ["alibi"]}
        assert find_plan("docstrings-char", vary, cross=False, set={})[2] == []
        RunDirectory(tmp_path / "docstrings-char").write_recipe(recipe)
        (tmp_path / "positions").mkdir()
        monkeypatch.chdir(tmp_path)
        plan, _, notes = find_plan("docstrings-char", vary, cross=False, set={})
        assert plan.base == "docstrings-char"
        assert notes == ["docstrings-char is the built-in recipe, not the folder of that name."]
        plan, _, notes = find_plan("positions", None, cross=False, set={})
        assert len(plan.changes) == 6
        assert notes == ["positions is the built-in plan, not the folder of that name."]
        _, resolve, notes = find_plan(self.plan("docstrings-char"), None, cross=False, set={})
        assert notes == [
            "base=docstrings-char is the built-in recipe, not the run of that name in this folder; "
            "base=docstrings-char/recipe.yaml is the run's."
        ]
        assert resolve({})["model"]["width"] != recipe["model"]["width"]
        plan, resolve, notes = find_plan(self.plan({**recipe, "init_from": "docstrings-char"}), None, cross=False, set={})
        assert notes == [run_taken("docstrings-char")]
        assert "is the run in this folder, not the built-in recipe" in notes[0]
        StudyDirectory(tmp_path / "positions").begin(plan, resolve)
        gone_on, _, notes = find_plan("positions", None, cross=False, set={})
        assert gone_on.changes == plan.changes
        assert "positions is the study in this folder, not the built-in plan of that name." in notes

    def test_the_product_of_several_changes(self):
        vary = {"model.positions": ["alibi", "none"], "model.merge": ["shift"]}
        crossed, _, _ = find_plan("docstrings-char", vary, cross=True, set={})
        assert [change.name for change in crossed.changes] == [
            "model.positions=alibi model.merge=shift",
            "model.positions=none model.merge=shift",
        ]


class TestSeveralBases:
    CHANGES = "changes: [{name: none, set: {model.positions: none}}]\n"

    def test_one_plan_for_each(self, recipe, tmp_path):
        (tmp_path / "own.yaml").write_text(dump_yaml(recipe))
        file = tmp_path / "plan.yaml"
        file.write_text(f"bases: [own.yaml, docstrings-char]\nseeds: 7\n{self.CHANGES}")
        first, second = several_bases(file) or []
        assert first["base"]["model"] == recipe["model"]
        assert (second["base"], second["seeds"]) == ("docstrings-char", 7)

    def test_any_other_source_has_none(self, tmp_path):
        assert several_bases("docstrings-char") is None
        assert several_bases(tmp_path) is None

    def test_base_and_bases(self, tmp_path):
        file = tmp_path / "plan.yaml"
        file.write_text(f"base: docstrings-char\nbases: [docstrings-char]\n{self.CHANGES}")
        with pytest.raises(ConfigError, match="base and bases both say what is changed"):
            several_bases(Path(file))


def test_a_plan_that_is_run_anew_plans_all_its_changes(recipe):
    changes = [{"name": "none", "set": {"model.positions": "none"}, "exploratory": True}]
    plan, _, _ = find_plan({"base": recipe, "changes": changes}, None, cross=False, set={})
    assert [change.exploratory for change in plan.changes] == [False]


def test_another_metric_has_a_margin_of_its_own(recipe):
    changes = [{"name": "none", "set": {"model.positions": "none"}}]
    plan, _, _ = find_plan({"base": recipe, "changes": changes, "metric": "loss", "margin": 0.07}, None, cross=False, set={})
    again, _, _ = find_plan(plan, None, cross=False, set={}, metric="bits_per_byte")
    assert (again.judged.name, again.same_within) == ("bits_per_byte", again.judged.margin)
    asked, _, _ = find_plan(plan, None, cross=False, set={}, metric="bits_per_byte", margin=0.03)
    assert asked.same_within == 0.03
    assert find_plan(plan, None, cross=False, set={}, metric="loss")[0].same_within == 0.07
