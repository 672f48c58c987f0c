"""The schema of a form names every key and variant of a recipe."""

from __future__ import annotations

import json

from glassformer.foundation.registry import Slot
from glassformer.recipe import Recipe, list_variants, load_recipe
from glassformer.web.routes.new_run import recipe_schema


def test_every_key_and_every_variant() -> None:
    schema = recipe_schema()
    assert set(schema["properties"]) == set(Recipe.model_fields) - {"about", "result"}
    model = schema["properties"]["model"]["variants"]["transformer"]["properties"]
    found = {"model": schema["properties"]["model"], **{f"model.{key}": value for key, value in model.items()}}
    for slot in ("model.mixer", "model.positions", "model.norm", "model.head"):
        assert (
            sorted(found[slot]["variants"])
            == Slot.every[slot].names()
            == [r["name"] for r in list_variants() if r["slot"] == slot]
        )
    assert model["positions"]["default"] == "learned"
    assert schema["properties"]["training"]["properties"]["batch_size"]["default"] == 32
    assert schema["properties"]["seed"]["minimum"] == 0


def test_it_is_json_and_covers_what_a_recipe_says() -> None:
    schema = json.loads(json.dumps(recipe_schema(), allow_nan=False))
    recipe = load_recipe("docstrings-char").to_dict()
    for key in ("data", "training", "evaluation", "checkpoint"):
        assert set(recipe[key]) <= set(schema["properties"][key]["properties"]), key
