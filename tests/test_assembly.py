"""Recipe -> tokenizer -> data -> network; and what a recipe takes from the run or recipe it starts from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.listener import Listener
from tests.refusals import refused

from glassformer import assembly
from glassformer.assembly import (
    Parent,
    batches_of,
    build_network,
    number_of_steps,
    prepare_data,
    starting_network,
    token_counts,
    tokenizer_for,
    tools_for,
)
from glassformer.experiment import train
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.files import sha256_of_file
from glassformer.foundation.progress import SILENT
from glassformer.recipe import load_recipe
from glassformer.recipe_cost import plan
from glassformer.runs.directory import RunDirectory
from glassformer.runs.weights import saved_tensors

LIKE_TRAINED = {"model.width": 12, "model.dropout": 0.0, "training.steps": 2}


@pytest.fixture
def labelled(tmp_path: Path) -> dict[str, Any]:
    """A recipe of labels that can start from a run on the tiny text: same model, another head and other outputs."""
    file = tmp_path / "labels.txt"
    file.write_text("".join(f"{'ab'[n % 2]} the {'cat' if n % 2 else 'hen'} ran\n" for n in range(30)), encoding="utf-8")
    return {
        "data": {"path": str(file), "format": "label-text"},
        "objective": "labels",
        "model": {"width": 12, "heads": 2, "layers": 1, "context": 16, "head": "classifier", "causal": False},
        "training": {"steps": 2, "batch_size": 6, "device": "cpu"},
    }


class TestFromARun:
    def test_the_tokenizer_and_the_weights_are_the_parents(self, tiny, trained) -> None:
        recipe = load_recipe(tiny, {**LIKE_TRAINED, "init_from": str(trained)})
        parent = Parent.read(trained, SILENT.say)
        tokenizer = tokenizer_for(recipe)
        assert tokenizer.settings() == tokenizer_for(load_recipe(tiny), RunDirectory(trained)).settings()
        network, sentence = starting_network(recipe, prepare_data(recipe), parent)
        assert sentence == f"Starting from the weights of {trained}."
        assert parent.checkpoint.step == 12
        assert all(torch.equal(tensor, parent.checkpoint.model[name]) for name, tensor in saved_tensors(network).items())

    def test_a_run_named_like_a_recipe_wins_and_says_so(self, trained, tmp_path, monkeypatch) -> None:
        shutil.copytree(trained, tmp_path / "world-pretrain")
        monkeypatch.chdir(tmp_path)
        said: list[str] = []
        assert Parent.read("world-pretrain", said.append).directory.root == Path("world-pretrain")
        assert said == [
            "init_from=world-pretrain is the run in this folder, not the built-in recipe of that name; rename the run to train "
            "the recipe first."
        ]
        Parent.read(tmp_path / "world-pretrain", said.append)
        assert len(said) == 1

    def test_another_tokenizer_is_refused(self, tiny, trained) -> None:
        with refused(ConfigError, "tokenizer-not-the-parents", "tokenizer='byte'"):
            load_recipe({**tiny, "tokenizer": "byte", "init_from": str(trained)})

    def test_a_head_of_other_outputs_is_new_and_said(self, labelled, trained) -> None:
        recipe = load_recipe({**labelled, "init_from": str(trained)})
        data, parent = prepare_data(recipe), Parent.read(trained, SILENT.say)
        network, sentence = starting_network(recipe, data, parent)
        assert sentence is not None
        assert sentence.endswith("the head is newly initialised, since its outputs differ.")
        assert data.tokenizer.size == tokenizer_for(recipe).size
        assert network.dims.num_outputs == 2
        assert torch.equal(network.embedding.weight, parent.checkpoint.model["embedding.weight"])

    def test_ancestry_is_the_parent_and_then_its_own(self, trained, tmp_path) -> None:
        copy = RunDirectory(shutil.copytree(trained, tmp_path / "copy"))
        environment = copy.read_environment()
        (own,) = Parent.read(copy.root, SILENT.say).ancestry()
        assert (own["run"], own["step"]) == (str(copy.root), 12)
        recipe = copy.read_recipe()
        assert own["tokens"] == 12 * recipe["training"]["batch_size"] * recipe["model"]["context"]
        assert own["recipe_fingerprint"] == environment["recipe_fingerprint"]
        assert own["weights_sha256"] == sha256_of_file(copy.checkpoint(12) / "model.safetensors")
        copy.write_environment({**environment, "ancestry": [{"run": "older", "step": 3}]})
        assert [one["run"] for one in Parent.read(copy.root, SILENT.say).ancestry()] == [str(copy.root), "older"]

    def test_a_run_without_a_checkpoint_is_a_sentence(self, trained, tmp_path) -> None:
        copy = shutil.copytree(trained, tmp_path / "copy")
        shutil.rmtree(copy / "checkpoints")
        with refused(RunError, "no-checkpoint"):
            Parent.read(copy, SILENT.say)
        with refused(RunError, "not-a-run"):
            Parent.read(tmp_path / "absent", SILENT.say)

    def test_a_damaged_newest_checkpoint_of_the_parent_is_named(self, tiny, trained, tmp_path, unchecked) -> None:
        copy, listener = RunDirectory(shutil.copytree(trained, tmp_path / "copy")), Listener()
        file = copy.checkpoint(12) / "model.safetensors"
        file.write_bytes(b"")
        run = train(tiny, set={**LIKE_TRAINED, "init_from": str(copy.root)}, out=tmp_path / "run", watch=listener)
        assert run.ancestry[0]["step"] == 8
        assert any(f"{file} is damaged" in said and "Using the checkpoint before it" in said for said in listener.said)


class TestFromARecipe:
    def test_the_parent_is_trained_first_and_written_down(self, tiny, tiny_file, tmp_path, unchecked) -> None:
        listener = Listener()
        run = train(tiny, set={"init_from": str(tiny_file), "training.steps": 2}, out=tmp_path / "run", watch=listener)
        parent = RunDirectory(tmp_path / "run" / "parent")
        assert parent.read_state()["status"] == "finished"
        (ancestor,) = run.ancestry
        assert (ancestor["run"], ancestor["step"]) == (str(parent.root), 6)
        assert any(said.startswith(f"Training the parent first: {tiny_file}") for said in listener.said)
        assert run.tokenizer.settings() == tokenizer_for(run.recipe, parent).settings()

    def test_a_dry_run_counts_the_parent(self, tiny, tiny_file) -> None:
        alone, both = plan(tiny), plan(tiny, set={"init_from": str(tiny_file), "training.steps": 2})
        assert both.parent is not None
        assert (both.steps, both.parent.steps) == (2, 6)
        assert both.flops == alone.flops * 8 // 6
        assert both.to_dict()["parent"]["flops"] == alone.flops
        assert dict(both.facts())["trained before it"].endswith(": 6 steps")

    @pytest.mark.parametrize("also", [[], ["tokenizer.json"], ["tokenizer.json", "environment.json"]])
    def test_a_run_killed_before_its_first_step_goes_on(self, also, tiny, tiny_file, tmp_path, unchecked) -> None:
        """The folder holds the parent, finished or not, and what is written before there is a recipe."""
        changes = {"init_from": str(tiny_file), "training.steps": 2}
        whole = train(tiny, set=changes, out=tmp_path / "whole")
        killed = tmp_path / "killed"
        killed.mkdir()
        shutil.copytree(whole.folder / "parent", killed / "parent")
        for name in also:
            shutil.copy(whole.folder / name, killed / name)
        with refused(RunError, "folder-not-empty", "--resume"):
            train(tiny, set=changes, out=killed)
        again = train(tiny, set=changes, out=killed, resume=True)
        ours, theirs = again.checkpoint("last").model, whole.checkpoint("last").model
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)

    def test_a_parent_that_was_stopped_goes_on(self, tiny, tiny_file, tmp_path, unchecked) -> None:
        changes = {"init_from": str(tiny_file), "training.steps": 2}
        whole = train(tiny, set=changes, out=tmp_path / "whole")
        parent = RunDirectory(shutil.copytree(whole.folder / "parent", tmp_path / "killed" / "parent"))
        shutil.rmtree(parent.checkpoint(6))
        parent.write_state("running", step=4, steps=6)
        again = train(tiny, set=changes, out=tmp_path / "killed", resume=True)
        assert again.ancestry[0]["weights_sha256"] == whole.ancestry[0]["weights_sha256"]


def test_tokens_are_counted_in_pieces(monkeypatch) -> None:
    monkeypatch.setattr(assembly, "COUNTED_AT_ONCE", 4)
    tokens = np.array([3, 0, 3, 1, 3, 0, 5, 3, 1], dtype=np.uint16)
    assert token_counts(tokens, 7).tolist() == [2, 2, 0, 4, 0, 1, 0]
    assert token_counts(tokens[:0], 3).tolist() == [0, 0, 0]


def test_steps_by_number_or_by_epochs(tiny) -> None:
    recipe = load_recipe(tiny)
    batches = batches_of(recipe, prepare_data(recipe))
    assert number_of_steps(recipe, batches) == 6
    half = load_recipe(tiny, {"training.epochs": 1.5})
    assert number_of_steps(half, batches) == int(np.ceil(1.5 * batches.steps_per_epoch))
    assert number_of_steps(load_recipe(tiny, {"training.epochs": 1e-9}), batches) == 1
    batches.windows, batches.batch_size = 7, 100
    assert number_of_steps(load_recipe(tiny, {"training.epochs": 100.0}), batches) == 7  # 100 * 0.07 = 7.000000000000001


def test_a_fresh_network_is_that_of_the_seed(tiny) -> None:
    recipe = load_recipe(tiny)
    data = prepare_data(recipe)
    network, sentence = starting_network(recipe, data)
    assert sentence is None
    twin, other = build_network(recipe, data), build_network(load_recipe(tiny, {"seed": 4}), data)
    assert all(torch.equal(one, two) for one, two in zip(network.parameters(), twin.parameters()))
    assert not torch.equal(network.embedding.weight, other.embedding.weight)
    assert (tools_for(recipe, data.tokenizer, batch_size=5).context, network.dims.vocabulary) == (16, data.tokenizer.size)
