"""The card of an export: what the run's files say, figures with intervals, checks, and no licence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.foundation.yaml_text import parse_yaml
from glassformer.pretrained.card import model_card
from glassformer.runs.directory import RunDirectory


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> gf.Run:
    copy = shutil.copytree(trained, tmp_path / "my-run")
    shutil.rmtree(copy / "evaluations", ignore_errors=True)  # the shared run may have been evaluated by another test
    return gf.load(copy)


def test_what_it_says(run: gf.Run) -> None:
    bare = model_card(run.directory, "GPT2LMHeadModel", parameters=1234, step=12)
    assert "None were measured for this checkpoint" in bare
    evaluation = run.evaluation("validation")
    card = model_card(run.directory, "GPT2LMHeadModel", parameters=1234, step=12, notes=["Something to know."])
    head, _, body = card.removeprefix("---\n").partition("---\n")
    assert parse_yaml(head, "card") == {"library_name": "transformers", "tags": ["glassformer"]}
    assert body.lstrip().startswith("# my-run")
    assert "1,234 parameters" in card
    assert "AutoModelForCausalLM" in card
    assert "Note: Something to know." in card
    assert f"| loss | {evaluation.metrics['loss']} |" in card
    assert "[" in str(evaluation.metrics["loss"])  # an interval
    assert "bigram" in card
    assert "## Checks\n\n- causality: passed" in card
    assert f"sha256 `{run.directory.read_environment()['data']['sha256']}`" in card
    assert "width: 12" in card
    assert "Licence\n\nNone is stated" in card


def test_a_tainted_run_says_so(run: gf.Run) -> None:
    environment = run.directory.read_environment()
    environment.pop("schema")
    run.directory.write_environment({**environment, "tainted": "this model breaks causality"})
    assert "- TAINTED: this model breaks causality" in model_card(run.directory, "GPT2LMHeadModel", parameters=1, step=12)


def test_a_run_without_an_environment(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_recipe({"about": "By hand.", "data": {"path": "mine.txt"}})
    card = model_card(directory, "BertModel", parameters=1, step=0)
    assert "Trained on mine.txt." in card
    assert "Not recorded in the run" in card
    assert "import AutoTokenizer, AutoModel\n" in card


def test_an_imported_run(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_recipe({"data": {"set": "none"}})
    directory.write_environment({"imported": {"sha256": {"model.safetensors": "abc"}}})
    card = model_card(directory, "BertForMaskedLM", parameters=1, step=0)
    assert "the weights were imported from model.safetensors (sha256 `abc`)" in card
    assert "AutoModelForMaskedLM" in card
