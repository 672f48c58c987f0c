"""A text file as a recipe: what counts as one, and sizes that follow its length."""

from __future__ import annotations

import pytest

from glassformer.data.own_text import is_text, recipe_for
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


def test_what_is_none(tmp_path) -> None:
    (tmp_path / "recipe.yaml").write_text("seed: 1\n", encoding="utf-8")
    assert not is_text(tmp_path / "recipe.yaml")
    assert not is_text(tmp_path / "missing.txt")
    assert not is_text({"data": {}})
