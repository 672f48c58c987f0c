"""``glassformer recipes``."""

from __future__ import annotations

from glassformer.recipe import built_in_recipes, list_variants
from glassformer.training.slots import SCHEDULES


def test_lists_recipes_and_variants(cli) -> None:
    answer = cli("recipes")
    assert answer.code == 0
    for name in built_in_recipes():
        assert name in answer.out
    for name in SCHEDULES.names():
        assert name in answer.out
    assert "alibi, fire, kerple, learned, none, rotary" in answer.out  # one line a slot
    assert "model.mixer" not in cli("recipes", "--no-variants").out


def test_says_what_each_variant_is(cli) -> None:
    told = cli("recipes", "--variants").out
    for row in list_variants():
        line = next(line for line in told.splitlines() if line.split()[:2] == [row["slot"], row["name"]])
        assert row["about"] in line


def test_as_json(cli) -> None:
    document = cli("recipes", "--json").json
    assert [recipe["name"] for recipe in document["recipes"]] == sorted(built_in_recipes())
    assert {"slot": "model.norm", "name": "rms"} in [{k: row[k] for k in ("slot", "name")} for row in document["variants"]]


def test_one_recipe_as_it_is(cli) -> None:
    text = built_in_recipes()["docstrings-char"].read_text()
    assert cli("recipes", "docstrings-char").out == text
    assert cli("recipes", "docstrings-char", "--json").json == {"name": "docstrings-char", "recipe": text}


def test_a_name_that_is_not_there(cli) -> None:
    answer = cli("recipes", "docstring-char")
    assert answer.code == 2
    assert "Did you mean 'docstrings-char'" in answer.sentence
