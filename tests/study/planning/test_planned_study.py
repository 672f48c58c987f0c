"""From words to a plan: flags over a plan, bases beside it, built-in names, plans of several bases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, UnknownName, UsageError
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.recipe import Recipe, built_in_recipes, load_recipe, run_taken
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.plan import StudyPlan, built_in_studies, list_studies
from glassformer.study.planning.planned_study import plan_studies


def find_plan(source: Any, vary: Any = None, *, cross: bool = False, set: Any = None, **settings: Any) -> Any:
    """The plan of a single study, the function that resolves its recipes, and its notes."""
    (planned,) = plan_studies(source, vary, cross=cross, set=set, settings=settings)
    return planned.plan, planned.resolve, list(planned.notes)


class TestPlans:
    def plan(self, recipe: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"base": recipe, "changes": [{"name": "none", "set": {"model.positions": "none"}}], **more}

    def test_flags_go_over_the_plan(self, recipe):
        plan, _, _ = find_plan(self.plan(recipe, seeds=6, margin=0.05), set={"training.lr": 0.5}, seeds=9)
        assert (plan.seeds, plan.margin, plan.set) == (9, 0.05, {"training.lr": 0.5})

    def test_a_base_beside_the_plan_is_taken_into_it(self, recipe, tmp_path):
        folder = tmp_path / "plans"
        folder.mkdir()
        (folder / "base.yaml").write_text(dump_yaml({**recipe, "result": "something"}))
        (folder / "plan.yaml").write_text(dump_yaml(self.plan("base.yaml")))  # type: ignore[arg-type]
        plan, resolve, _ = find_plan(folder / "plan.yaml")
        assert plan.base["model"] == recipe["model"]
        assert resolve({})["model"]["width"] == 12

    def test_a_search_needs_no_changes(self, recipe, tmp_path):
        (tmp_path / "base.yaml").write_text(dump_yaml(recipe))
        searched = {"base": "base.yaml", "tune": {"grid": {"training.lr": [0.01, 0.1]}, "seeds": 4}}
        (tmp_path / "plan.yaml").write_text(dump_yaml(searched))
        plan, _, notes = find_plan(tmp_path / "plan.yaml")
        assert (plan.variants, notes) == (["base"], [])

    def test_a_recipe_with_a_grid_needs_nothing_varied(self, recipe):
        plan, _, _ = find_plan(recipe, tune={"grid": {"training.lr": [0.1, 0.2]}, "seeds": 1})
        assert (plan.changes, len(plan.tuning_points("base"))) == ([], 2)
        with refused(UsageError, "nothing-varied"):
            find_plan(recipe)

    def test_fresh_seeds_are_fresh_for_tuning_too(self, recipe, tmp_path):
        tune = {"grid": {"training.lr": [0.01, 0.1]}, "seeds": 4}

        def seeds(plan: StudyPlan) -> set[int]:
            return {trial.seed for trial in plan.tuning_trials()}

        first, resolve, _ = find_plan(self.plan(recipe, tune=tune))
        by_flag, _, _ = find_plan(self.plan(recipe, tune=tune), first_seed=8)
        by_plan, _, _ = find_plan(self.plan(recipe, tune=tune, first_seed=8))
        by_vary, _, _ = find_plan(recipe, {"model.positions": ["none"]}, first_seed=8, tune=tune)
        assert seeds(by_flag) == seeds(by_plan) == seeds(by_vary)
        assert len(seeds(first)) == len(seeds(by_flag)) == 4
        assert not seeds(first) & seeds(by_flag)
        begun = StudyDirectory(tmp_path / "second")
        begun.begin(by_flag, resolve)
        assert seeds(find_plan(str(begun.root))[0]) == seeds(by_flag)
        third, _, _ = find_plan(str(begun.plan_file), first_seed=9)
        assert not seeds(third) & (seeds(first) | seeds(by_flag))
        assert seeds(find_plan(str(begun.plan_file), first_seed=0)[0]) == seeds(first)

    def test_a_built_in_recipe_keeps_its_name_and_a_built_in_study_has_one(self):
        plan, _, _ = find_plan("docstrings-char", {"model.positions": ["alibi"]})
        assert plan.base == "docstrings-char"
        assert len(find_plan("positions")[0].changes) == 6

    def test_a_run_called_like_the_base_is_not_taken_for_it(self, recipe, tmp_path, monkeypatch):
        RunDirectory(tmp_path / "docstrings-char").write_recipe(recipe)
        monkeypatch.chdir(tmp_path)
        file = built_in_recipes()["docstrings-char"]
        plan, resolve, _ = find_plan(str(file), {"model.positions": ["alibi"]})
        assert plan.base == "docstrings-char"
        assert resolve({})["model"]["width"] == load_recipe(file).model.width != recipe["model"]["width"]

    def test_which_of_two_was_taken_is_said(self, recipe, tmp_path, monkeypatch):
        vary = {"model.positions": ["alibi"]}
        assert find_plan("docstrings-char", vary)[2] == []
        RunDirectory(tmp_path / "docstrings-char").write_recipe(recipe)
        (tmp_path / "positions").mkdir()
        monkeypatch.chdir(tmp_path)
        plan, _, notes = find_plan("docstrings-char", vary)
        assert plan.base == "docstrings-char"
        assert notes == ["docstrings-char is the built-in recipe, not the folder of that name."]
        plan, _, notes = find_plan("positions")
        assert len(plan.changes) == 6
        assert notes == ["positions is the built-in plan, not the folder of that name."]
        _, resolve, notes = find_plan(self.plan("docstrings-char"))
        assert notes == [
            "base=docstrings-char is the built-in recipe, not the run of that name in this folder; "
            "base=docstrings-char/recipe.yaml is the run's."
        ]
        assert resolve({})["model"]["width"] != recipe["model"]["width"]
        plan, resolve, notes = find_plan(self.plan({**recipe, "init_from": "docstrings-char"}))
        assert notes == [run_taken("docstrings-char")]
        assert "is the run in this folder, not the built-in recipe" in notes[0]
        StudyDirectory(tmp_path / "positions").begin(plan, resolve)
        gone_on, _, notes = find_plan("positions")
        assert gone_on.changes == plan.changes
        assert "positions is the study in this folder, not the built-in plan of that name." in notes

    def test_the_product_of_several_changes(self):
        vary = {"model.positions": ["alibi", "none"], "model.merge": ["shift"]}
        crossed, _, _ = find_plan("docstrings-char", vary, cross=True)
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
        first, second = plan_studies(file)
        assert first.plan.base["model"] == recipe["model"]
        assert (second.plan.base, second.plan.seeds) == ("docstrings-char", 7)
        assert [str(one.directory.root) for one in (first, second)] == [
            "studies/set-1-and-docstrings-char/set-1",
            "studies/set-1-and-docstrings-char/docstrings-char",
        ]

    def test_base_and_bases(self, tmp_path):
        file = tmp_path / "plan.yaml"
        file.write_text(f"base: docstrings-char\nbases: [docstrings-char]\n{self.CHANGES}")
        with refused(ConfigError, "base-and-bases"):
            plan_studies(Path(file))


class TestSeveralSets:
    """What cannot be put together is refused before anything is run or written."""

    @pytest.fixture
    def mine(self, recipe, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("mine.yaml").write_text(dump_yaml(recipe))
        return recipe

    def refusal(self, sources: Any, error: type[Exception], vary: Any = {"model.positions": ["none"]}) -> str:  # noqa: B006
        first, *others = sources
        with pytest.raises(error) as refused:
            plan_studies(first, vary, also=others, settings={"seeds": 2})
        return str(refused.value)

    def test_a_second_recipe_that_is_not_there(self, mine):
        assert "no built-in recipe or plan 'nosuch'" in self.refusal(["mine.yaml", "nosuch"], UnknownName)

    def test_the_same_one_twice(self, mine):
        sentence = self.refusal(["mine.yaml", "mine.yaml"], ConfigError)
        assert "mine-1 and mine-2 are the same recipe on the same data" in sentence

    def test_a_change_that_one_of_them_has_already(self, mine):
        other = {**mine, "model": {**mine["model"], "positions": "alibi"}}
        sentence = self.refusal([mine, other], ConfigError, {"model.positions": ["alibi", "none"]})
        assert "changes must be the same on every set" in sentence

    def test_plans_with_other_margins(self, mine):
        plan = {"base": mine, "changes": [{"name": "none", "set": {"model.positions": "none"}}]}
        wider = {**plan, "margin": 0.5, "set": {"training.lr": 0.1}}
        sentence = self.refusal([plan, wider], ConfigError, None)
        assert "margin must be the same on every set: set-1 has 0.01, and set-2 has 0.5" in sentence


def test_a_plan_that_is_run_anew_plans_all_its_changes(recipe):
    changes = [{"name": "none", "set": {"model.positions": "none"}, "exploratory": True}]
    plan, _, _ = find_plan({"base": recipe, "changes": changes})
    assert [change.exploratory for change in plan.changes] == [False]


def test_another_metric_has_a_margin_of_its_own(recipe):
    changes = [{"name": "none", "set": {"model.positions": "none"}}]
    plan, _, _ = find_plan({"base": recipe, "changes": changes, "metric": "loss", "margin": 0.07})
    again, _, _ = find_plan(plan, metric="bits_per_byte")
    assert (again.judged.name, again.same_within) == ("bits_per_byte", again.judged.margin)
    asked, _, _ = find_plan(plan, metric="bits_per_byte", margin=0.03)
    assert asked.same_within == 0.03
    assert find_plan(plan, metric="loss")[0].same_within == 0.07


def test_the_studies_of_the_issue_are_there():
    assert {"demo", "positions", "head-merging", "synthesizer", "optimizers", "block"} <= set(built_in_studies())
    assert all(row["about"] and row["base"] for row in list_studies())


@pytest.mark.parametrize("name", sorted(built_in_studies()))
def test_each_resolves_to_recipes(name):
    for one in plan_studies(name):
        assert list(one.notes) == []
        assert one.plan.base in built_in_recipes()
        assert one.plan.all_looks[-1] >= 4
        for variant in one.plan.variants:
            for point in one.plan.tuning_points(variant) or [{}]:
                assert one.resolve({**one.plan.settings(variant), **point})["data"]


def test_no_study_hides_behind_a_recipe():
    assert not set(built_in_studies()) & set(built_in_recipes())


class TestRatesOfTuning:
    """A rate belongs to a way of tuning: ``train`` chooses one for each, and so does ``compare``."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> Path:
        file = tmp_path / "t.csv"
        file.write_text("text,label\n" + "".join(f"it did bark {n},dog\nit did purr {n},cat\n" for n in range(20)))
        return file

    def planned(self, source, tmp_path, vary, **set_):
        folder = {"model.folder": str(tmp_path / "encoder"), **set_}
        (one,) = plan_studies(source, vary=[vary], set=folder, out=tmp_path / "s")
        rates = {name: Recipe.parse(one.resolve(one.plan.settings(name))).training.lr for name in one.plan.variants}
        return rates, [note for note in one.notes if "learning rate" in note]

    def test_each_variant_of_a_table_has_the_rate_that_train_would_choose(self, table, tmp_path):
        rates, notes = self.planned(table, tmp_path, "model.tuning=full,lora,prefix", **{"model.tuning": "head"})
        assert rates == {
            "base": 1e-2,
            "model.tuning=full": 1e-4,
            "model.tuning=lora": 1e-3,
            "model.tuning=prefix": 1e-2,
        }
        assert len(notes) == 3

    def test_a_rate_that_the_user_gave_is_everyones_and_that_is_reported(self, table, tmp_path):
        rates, notes = self.planned(table, tmp_path, "model.tuning=full", **{"model.tuning": "head", "training.lr": 0.02})
        assert rates == {"base": 0.02, "model.tuning=full": 0.02}
        assert len(notes) == 1

    def test_a_recipe_that_hands_its_rate_on_is_reported(self, tmp_path):
        rates, notes = self.planned("sst2-minilm", tmp_path, "model.tuning=lora,head")
        assert len(set(rates.values())) == 1
        assert len(notes) == 2
