"""What is counted before training: on the built network and on drawn batches, equal to what our parts state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.assembly import prepare_data
from glassformer.data.overlap import share_of_judged
from glassformer.foundation.errors import ConfigError
from glassformer.recipe import load_recipe
from glassformer.recipe_cost import plan_with
from glassformer.study.planning.variant_costs import counted
from glassformer.study.planning.variant_facts import Facts, differences, require_comparable


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"model.positions": "alibi", "model.norm": "rms"},
        {"model.feedforward": "gated", "model.block": "parallel"},
        {"model.mixer": "grouped", "training.accumulate": 2},
        {"model.dropout": 0.2},
    ],
)
def test_our_own_statements_are_what_is_counted(recipe, change):
    """Of whole steps as they are trained, exactly. The formulas of every single variant: tests/model/test_accounting.py."""
    made = load_recipe(recipe, change)
    data = prepare_data(made)
    stated = plan_with(made, data)
    found = counted(made, data, "validation", stated)
    assert found["parameters"] == stated.cost.parameters
    assert found["step_flops"] == stated.cost.step_flops * made.training.accumulate
    assert found["tokens"] == stated.steps * stated.step_tokens
    assert (found["rows"], found["misstated"]) == (10, {})
    assert found["judged_share"] == 0.0


@pytest.mark.parametrize(
    ("changes", "places"),
    [({}, 0), ({"model.dropout": 0.2}, 1 + 3), ({"model.dropout": 0.2, "model.layers": 2}, 1 + 6)],
)
def test_places_with_dropout(recipe, changes, places):
    """After the embedding, and in each layer in the pattern and after both parts."""
    made = load_recipe(recipe, changes)
    data = prepare_data(made)
    assert counted(made, data, "validation", plan_with(made, data))["chances"] == places


def test_longer_windows_are_not_more_work_when_judged(recipe):
    """For each token only the pattern is longer, and training tells that."""
    facts = []
    for changes in ({}, {"model.context": 14, "training.batch_size": 5}):
        made = load_recipe(recipe, changes)
        data = prepare_data(made)
        found = counted(made, data, "validation", plan_with(made, data))
        known = {key: found[key] for key in ("step_flops", "steps", "tokens", "judged_flops")}
        facts.append(Facts(recipe="r", data="d", documents="x", **known))
    assert facts[0].tokens == facts[1].tokens
    assert 1.0 < facts[1].judged_flops / facts[0].judged_flops < 1.2
    assert differences(*facts, ["model.context", "training.batch_size"]) == []


def test_the_start_and_the_function(recipe):
    def of(**changes):
        made = load_recipe(recipe, {key.replace("__", "."): value for key, value in changes.items()})
        data = prepare_data(made)
        return counted(made, data, "validation", plan_with(made, data))

    base, seed, relu = of(), of(seed=1), of(model__feedforward="relu")
    assert base["start"] != seed["start"]  # another draw of the same distribution
    assert base["function"] == seed["function"] != relu["function"]
    known = {"recipe": "r", "data": "d", "documents": "x"}
    one, two = (Facts(**known, start=found["start"], function=found["function"]) for found in (base, seed))
    assert differences(one, two, ["model.norm"]) == []
    smaller = {key: [value / 3 for value in values] for key, values in two.start.items()}
    (found,) = differences(one, replace(two, start=smaller), ["model.norm"])
    assert found.text.startswith("the baseline's own network and nothing but another start")
    (found,) = differences(one, replace(two, start=smaller, function=relu["function"]), ["model.norm"])
    assert found.text.startswith("another start of parts that both have")
    assert differences(one, replace(two, start=smaller), ["model.init"]) == []
    assert differences(one, replace(two, start=smaller), ["init_from"]) == []


def test_other_order_and_judged_text():
    base = Facts("r", "d", "x", order="a", judged_share=0.0)
    other = replace(base, order="b", judged_share=0.01)
    assert [one.what for one in differences(base, other, ["model.norm"])] == ["judged text", "data order"]
    assert [one.what for one in differences(base, other, ["objective"])] == ["judged text"]
    with refused(ConfigError, "trained-on-judged-text"):
        require_comparable({"base": base, "peeks": replace(base, judged_share=0.6)}, ())
    with refused(ConfigError, "not-equal"):
        require_comparable({"base": replace(base, tokens=100), "more": replace(base, tokens=102)}, ["tokens", "time"])


class Texts:
    def __init__(self, *texts: str) -> None:
        self.texts = texts


def test_labelled_texts_are_found_whole():
    def encode(text: str) -> list[int]:
        return [ord(sign) for sign in text]

    def rows(*texts: str) -> list[np.ndarray]:
        return [np.array([1, *encode(text), 2, 0, 0]) for text in texts]

    judged, train = Texts("a sound and judged text", "in both of them"), Texts("a sound and trained one", "in both of them")
    assert share_of_judged(rows(*train.texts), judged, train, encode) == 0.0
    assert share_of_judged(rows("a sound and judged text", "something else"), judged, train, encode) == 0.5
    assert share_of_judged(rows("a sound and judged thing"), judged, train, encode) == 0.0
    assert share_of_judged(rows("short"), Texts("short"), train, encode) is None
