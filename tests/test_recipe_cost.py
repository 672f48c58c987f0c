"""A plan: what a recipe costs, equal to what training it then takes."""

from __future__ import annotations

import json

import pytest
from tests.encoders import WIDTH, make_folder
from tests.refusals import refused

import glassformer as gf
from glassformer.foundation.errors import ConfigError
from glassformer.recipe_cost import plan
from glassformer.training.slots import OPTIMIZERS


@pytest.mark.parametrize("optimizer", OPTIMIZERS.names())
def test_a_plan_is_what_training_then_takes(tiny, tmp_path, unchecked, optimizer: str) -> None:
    changes = {"training.optimizer": optimizer}
    planned = plan(tiny, set=changes)
    run = gf.train(tiny, set=changes, out=tmp_path / "run")
    checkpoint = run.checkpoint("last")
    assert planned.cost.parameters == sum(parameter.numel() for parameter in run.model.parameters())
    assert planned.cost.weight_bytes == sum(tensor.nbytes for tensor in checkpoint.model.values())
    assert planned.optimizer_bytes == sum(
        tensor.nbytes for name, tensor in checkpoint.optimizer.items() if not name.endswith("/trained")
    )
    assert planned.steps == run.summary()["steps"] == 6
    assert planned.vocabulary == run.tokenizer.size
    assert planned.decay == run.directory.read_environment()["weight_decay"]


def test_the_activations_are_those_of_one_piece(tiny) -> None:
    whole, pieces = (plan(tiny, set={"training.accumulate": n}) for n in (1, 4))
    assert pieces.cost.activation_bytes < whole.cost.activation_bytes
    assert pieces.to_dict()["step_flops"] == whole.to_dict()["step_flops"]  # the same work, less memory
    assert whole.step_tokens == pieces.step_tokens == 4 * 16


def test_the_document(tiny) -> None:
    document = plan(tiny, seed=11).to_dict()
    assert json.loads(json.dumps(document)) == document
    assert document["recipe"]["seed"] == 11
    assert document["parameters"] == sum(part["parameters"] for part in document["parts"])
    parts = ("weight_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes")
    assert document["total_bytes"] == sum(document[part] for part in parts)
    assert {"steps", "vocabulary", "train_tokens", "forward_flops", "step_flops", "weight_decay"} <= set(document)


def test_the_facts_for_people(tiny) -> None:
    facts = dict(plan(tiny).facts())
    assert facts["steps"] == "6"
    assert facts["tokens per step"] == "64"
    assert facts["tokens in all"].startswith("384 (")
    assert facts["weights"].endswith(" MB")


def test_what_is_trained_is_one_number_where_some_weights_are_frozen(tiny, tmp_path) -> None:
    (tmp_path / "animals.txt").write_text("".join(f"dog it did bark at {n}\ncat it did purr at {n}\n" for n in range(20)))
    model = {"kind": "pretrained", "folder": str(make_folder(tmp_path / "bert")), "context": 12}
    data = {"path": str(tmp_path / "animals.txt"), "format": "label-text"}
    recipe = {"data": data, "objective": "labels", "model": {**model, "tuning": {"kind": "prompt", "length": 7}}}
    found = plan({**recipe, "training": {"steps": 1, "device": "cpu"}})
    trained = 7 * WIDTH + 2 * WIDTH + 2
    assert found.to_dict()["trained_parameters"] == trained < found.cost.parameters
    assert dict(found.facts())["parameters that are trained"] == str(trained)
    whole = plan(tiny)
    assert whole.trained_parameters == whole.cost.parameters
    assert "parameters that are trained" not in dict(whole.facts())


def test_nothing_is_written(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan(tiny)
    assert list(tmp_path.iterdir()) == []


def test_mistakes_are_those_of_the_recipe(tiny) -> None:
    with refused(ConfigError, "bad-value", "model.heads=3", "model.width=8"):
        plan(tiny, set={"model.heads": 3})
