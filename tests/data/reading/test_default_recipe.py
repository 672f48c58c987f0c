"""A text or table as a recipe: what counts as one, sizes that follow its length, columns of a table."""

from __future__ import annotations

import pytest
from tests.refusals import refused

from glassformer.data.reading.default_recipe import is_text, recipe_for
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.recipe import load_recipe


@pytest.mark.parametrize(("length", "width"), [(1_000, 48), (100_000, 64), (1_000_000, 128)])
def test_sizes_follow_the_text_and_are_said(tmp_path, length: int, width: int) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("x" * length, encoding="utf-8")
    assert is_text(file)
    recipe = load_recipe(file)
    assert recipe.model.width == width
    assert f"A character model of mine.txt: {recipe.model.layers} layers of width {width}" in recipe.about
    assert load_recipe(recipe_for(file)) == recipe


ROWS = "id,review,stars\n1,good thing,5\n2,bad thing,1\n"
COLUMNS = {"data.text_column": "review", "data.label_column": "stars"}


class TestTables:
    def write(self, folder, text: str = ROWS, name: str = "reviews.csv"):
        file = folder / name
        file.write_text(text, encoding="utf-8")
        return file

    def test_without_a_text_column_says_which_there_are_and_what_to_type(self, tmp_path) -> None:
        with refused(DataError, "no-text-column", "--set", "data.text_column=NAME", "data.label_column"):
            load_recipe(self.write(tmp_path))

    def test_a_label_column_makes_a_classifier(self, tmp_path) -> None:
        recipe = load_recipe(self.write(tmp_path), COLUMNS)
        assert (recipe.objective.kind, recipe.model.causal, recipe.model.head.kind) == ("labels", False, "classifier")
        assert recipe_for(self.write(tmp_path), COLUMNS)["about"].startswith(
            "A classifier of reviews.csv (labels: stars): words"
        )

    @pytest.mark.parametrize(
        ("changes", "said"), [({"training.steps": 8}, "8 steps"), ({"training.epochs": 3}, "3 epochs"), ({}, "300 steps")]
    )
    @pytest.mark.parametrize("folder", [{}, {"model.folder": "there"}])
    def test_it_says_the_steps_that_are_set(self, tmp_path, changes, said: str, folder) -> None:
        assert said in recipe_for(self.write(tmp_path), {**COLUMNS, **changes, **folder})["about"]

    def test_usual_names_need_no_settings(self, tmp_path) -> None:
        file = self.write(tmp_path, '{"text": "good", "label": 1}\n', "reviews.jsonl")
        assert load_recipe(file).objective.kind == "labels"

    def test_a_file_without_a_header_has_numbers(self, tmp_path) -> None:
        recipe = load_recipe(self.write(tmp_path, "1\tgood\n", "a.tsv"), {"data.text_column": 2, "data.label_column": 1})
        assert recipe.objective.kind == "labels"

    @pytest.mark.parametrize("changes", [{"data.text_column": "review"}, {**COLUMNS, "objective": "next-token"}])
    def test_otherwise_it_is_a_text(self, tmp_path, changes) -> None:
        assert load_recipe(self.write(tmp_path), changes).objective.kind == "next-token"

    @pytest.mark.parametrize(("tuning", "rate"), [("full", 1e-4), ("head", 1e-2), ({"kind": "lora", "rank": 4}, 1e-3)])
    def test_an_encoder_has_the_rate_of_its_tuning(self, tmp_path, tuning, rate: float) -> None:
        values = recipe_for(self.write(tmp_path), {**COLUMNS, "model.folder": "there", "model.tuning": tuning})
        assert (values["model"]["kind"], values["training"]["lr"]) == ("pretrained", rate)


def test_a_folder_says_how_to_train_on_it(tmp_path) -> None:
    with refused(ConfigError, "recipe-is-a-folder", "--set", "data.path="):
        load_recipe(tmp_path)


def test_what_is_none(tmp_path) -> None:
    (tmp_path / "recipe.yaml").write_text("seed: 1\n", encoding="utf-8")
    assert not is_text(tmp_path / "recipe.yaml")
    assert not is_text(tmp_path / "missing.txt")
    assert not is_text({"data": {}})
