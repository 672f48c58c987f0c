"""What parents have read of the judged text: runs and recipes, and the parents of parents."""

from __future__ import annotations

from typing import Any

import pytest
from tests.refusals import refused
from tests.study.conftest import markov_text

from glassformer.assembly import prepare_data
from glassformer.experiment import train
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.recipe import load_recipe
from glassformer.study.planning.parents_text import read_by_parents
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.variant_data import prepared_facts

LINES = markov_text(lines=120, length=70, seed=5).splitlines()
JUDGED = LINES[:20]


@pytest.fixture
def trained_on(recipe, tmp_path, monkeypatch):
    """A recipe for a text of these lines, judged on others."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    judged = tmp_path / "judged.txt"
    judged.write_text("\n".join(JUDGED) + "\n")

    def trained_on(name: str, lines: list[str], init_from: str | None = None) -> dict[str, Any]:
        file = tmp_path / f"{name}.txt"
        file.write_text("\n".join(lines) + "\n")
        data = {"path": str(file), "validation": str(judged), "document": "line"}
        made = {**recipe, "data": data, "training": {**recipe["training"], "steps": 1}}
        return made if init_from is None else {**{key: made[key] for key in made if key != "tokenizer"}, "init_from": init_from}

    return trained_on


@pytest.mark.parametrize("as_run", [True, False], ids=["a run", "a recipe"])
def test_a_parent_and_its_parent(trained_on, tmp_path, as_run):
    def parent(name: str, values: dict[str, Any]) -> str:
        if as_run:
            return str(train(load_recipe(values), out=tmp_path / name, threads=1).directory.root)
        file = tmp_path / f"{name}.yaml"
        file.write_text(dump_yaml(values))
        return str(file)

    first = parent("first", trained_on("half", LINES[10:]))
    second = parent("second", trained_on("none", LINES[30:], first))
    for place in (first, second):
        made = load_recipe(trained_on("own", LINES[40:], place))
        assert read_by_parents(made, prepare_data(made), "validation") == pytest.approx(0.5, abs=0.05)
    alone = load_recipe(trained_on("own", LINES[40:]))
    data = prepare_data(made)
    assert read_by_parents(alone, data, "validation") == 0.0
    (tmp_path / "half.txt").unlink()  # nothing can be known any more
    assert read_by_parents(made, data, "validation") < 0.01  # the other parent's letters repeat themselves


def test_in_a_study(trained_on, tmp_path):
    def facts_of(base: dict[str, Any], change: dict[str, Any], **more: Any) -> Any:
        plan = StudyPlan.parse({"base": base, "changes": [{"name": "change", "set": change}], **more})
        return prepared_facts(plan, lambda settings: load_recipe(base, settings).to_dict())

    half, whole = (
        str(train(load_recipe(trained_on(name, lines)), out=tmp_path / name, threads=1).directory.root)
        for name, lines in {"half": LINES[10:], "whole": LINES}.items()
    )
    base = {key: value for key, value in trained_on("own", LINES[30:]).items() if key != "tokenizer"}
    facts = facts_of(base, {"init_from": half})
    assert facts["change"].read_by_parents > 0.4 > facts["base"].read_by_parents == 0.0
    same_text = {key: value for key, value in trained_on("half", LINES[10:]).items() if key != "tokenizer"}
    assert facts_of(same_text, {"init_from": half})["change"].read_by_parents == 0.0  # nothing that it does not read itself
    with refused(ConfigError, "judged-text-is-trained-on"):
        facts_of(base, {"init_from": whole})
    assert facts_of(base, {"init_from": whole}, allow_leaks=True)["change"].read_by_parents == 1.0
    notes = facts_of(trained_on("own", LINES[30:], half), {"model.norm": "rms"})["base"].notes
    assert sum("init_from" in note for note in notes) == 1
