"""``glassformer train``: a run from the command line, its price beforehand, and every way it can be refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from glassformer.cli.train import _way_to_talk
from glassformer.foundation.runtime import bf16_works
from glassformer.objectives.base import OBJECTIVES
from glassformer.runs.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("unchecked")


def test_a_run(cli, tiny_file, tmp_path) -> None:
    answer = cli("train", tiny_file, "--out", tmp_path / "run")
    assert answer.code == 0
    first, second = answer.out.splitlines()
    assert first == f"Run: {tmp_path / 'run'}"
    assert second.startswith("Validation loss ")
    assert " nats per token at step 6. The best baseline, " in second
    beside = RunDirectory(tmp_path / "run").read_state()["baselines"]
    assert second.endswith(f"{min(beside, key=beside.get)}, has {min(beside.values()):.4f}.")  # a loss alone says little
    assert "Next: glassformer evaluate" in answer.err


@pytest.mark.parametrize(
    ("objective", "causal", "next_word"),
    [("next-token", True, "generate RUN"), ("answers", True, "ask RUN QUESTION"), ("masked", False, "look RUN TEXT")],
)
def test_the_next_command_fits_the_objective(objective: str, causal: bool, next_word: str) -> None:
    recipe = SimpleNamespace(objective=OBJECTIVES.parse(objective), model=SimpleNamespace(causal=causal))
    assert _way_to_talk(SimpleNamespace(recipe=recipe), "RUN") == next_word


def test_as_json(cli, tiny_file, tmp_path) -> None:
    answer = cli("train", tiny_file, "--out", tmp_path / "run", "--json", "--seed", 7, "--set", "training.steps=4")
    document = answer.json
    assert (document["status"], document["step"], document["steps"]) == ("finished", 4, 4)
    assert RunDirectory(tmp_path / "run").read_recipe()["seed"] == 7


def test_quiet(cli, tiny_file, tmp_path) -> None:
    answer = cli("train", tiny_file, "--out", tmp_path / "run", "--quiet")
    assert answer.code == 0
    assert answer.err == ""


def test_going_on(cli, tiny_file, tmp_path) -> None:
    cli("train", tiny_file, "--out", tmp_path / "run")
    refused = cli("train", tiny_file, "--out", tmp_path / "run")
    assert refused.code == 1
    assert "is not empty. Continue its run with --resume" in refused.sentence
    answer = cli("train", tiny_file, "--out", tmp_path / "run", "--resume", "--set", "training.steps=8", "--json")
    assert answer.json["step"] == 8
    other = cli("train", tiny_file, "--out", tmp_path / "run", "--resume", "--set", "model.width=16")
    assert other.code == 2
    assert "cannot resume with another recipe (model.width: 8 -> 16)" in other.sentence


def test_the_default_folder(cli, tiny_file, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("train", tiny_file, "--json").json["run"] == "runs/tiny"
    assert cli("train", tiny_file, "--json").json["run"] == "runs/tiny-2"
    assert cli("train", tiny_file, "--resume", "--set", "training.steps=7", "--json").json["run"] == "runs/tiny-2"


def test_the_price_beforehand(cli, tiny_file, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path / ".")
    before = sorted(tmp_path.iterdir())
    answer = cli("train", tiny_file, "--dry-run")
    assert answer.code == 0
    for part in ("embedding", "mixer (dot)", "feedforward (gelu)", "head (tied)", "optimizer state", "Weight decay acts on"):
        assert part in answer.out
    document = cli("train", tiny_file, "--dry-run", "--json").json
    assert document["parameters"] == sum(part["parameters"] for part in document["parts"])
    assert sorted(tmp_path.iterdir()) == before  # nothing was trained, nothing written


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--set", "model.widht=8"], "There is no key 'model.widht'. Did you mean 'width'?"),
        (["--set", "model.width=10", "--set", "model.heads=4"], "model.heads=4 does not divide model.width=10"),
        (["--set", "model.mixer=dto"], "Did you mean 'dot'?"),
        (["--set", "training.device=tpu"], "training.device=tpu is not on this machine"),
        (["--set", "model.width"], "is not of the form key=value"),
        (["--set", "seed=1", "--set", "seed=2"], "--set seed is given twice"),
        (["--plugin", "absent.py"], "--plugin absent.py: not a Python file that exists"),
        (["--set", "training.accumulate=3"], "training.accumulate=3 does not divide training.batch_size=4"),
    ],
)
def test_what_is_wrong_in_the_recipe_is_2_and_leaves_nothing(cli, tiny_file, tmp_path, words: list[str], hint: str) -> None:
    answer = cli("train", tiny_file, "--out", tmp_path / "run", *words)
    assert answer.code == 2
    assert hint in answer.sentence
    assert answer.out == ""
    assert not (tmp_path / "run").exists()


def test_divergence_is_4(cli, tiny_file, tmp_path) -> None:
    words = ["--set", "training.lr=1e30", "--set", "training.clip=null", "--set", "checkpoint.every=1"]
    answer = cli("train", tiny_file, "--out", tmp_path / "run", *words, "--json")
    assert answer.code == 4
    assert answer.out == ""
    assert "Diverged at step" in answer.sentence
    assert cli("runs", tmp_path, "--json").json["runs"][0]["status"] == "diverged"


def test_bf16_on_a_machine_without_it_is_said(cli, tiny_file, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("glassformer.foundation.runtime.bf16_works", lambda device: False)
    answer = cli("train", tiny_file, "--out", tmp_path / "run", "--set", "training.precision=bf16")
    assert answer.code == 0
    assert "bf16 was asked for, but bf16 products do not work on this cpu" in answer.err
    assert RunDirectory(tmp_path / "run").read_environment()["precision"] == "float32"


def test_bf16_passes_the_checks_trains_and_writes_where_the_machine_has_it(cli, tiny_file, tmp_path) -> None:
    if not bf16_works("cpu"):
        pytest.skip("bf16 products do not work on this CPU (tried in a child process)")
    answer = cli("train", tiny_file, "--out", tmp_path / "run", "--set", "training.precision=bf16")
    assert answer.code == 0
    assert RunDirectory(tmp_path / "run").read_environment()["precision"] == "bf16"
    words = ["--max-new-tokens", 30, "--json"]
    rounded = cli("generate", tmp_path / "run", "the", "--precision", "bf16", *words).json["samples"][0]
    assert rounded["tokens"] == cli("generate", tmp_path / "run", "the", *words).json["samples"][0]["tokens"] == 30


def test_a_plan_for_several_gpus(cli, tiny_file) -> None:
    document = cli("train", tiny_file, "--dry-run", "--processes", 8, "--nodes", 2, "--gpu", "h200", "--json").json
    assert [(one["form"], one["processes"], one["nodes"]) for one in document["processes"]] == [("ddp", 8, 2), ("fsdp", 8, 2)]
    assert all(one["fits"] for one in document["processes"])
    assert document["step_seconds"] is None  # nothing is timed here for machines that are elsewhere
    shown = cli("train", tiny_file, "--dry-run", "--processes", 8)
    assert "On 8 processes, h100 (calculated, not measured)" in shown.out
    assert cli("train", tiny_file, "--gpu", "h100").code == 2
    assert cli("train", tiny_file, "--dry-run", "--processes", 6).code == 2


@pytest.mark.usefixtures("unchecked")
def test_a_log_beside_the_run(cli, tiny_file, tmp_path) -> None:
    answer = cli("train", tiny_file, "--out", tmp_path / "run", "--log", "csv")
    assert answer.code == 0, answer.err
    assert len((tmp_path / "run" / "metrics.csv").read_text().splitlines()) == 1 + 6 + 2
    assert cli("train", tiny_file, "--out", tmp_path / "other", "--log", "neptune").code == 2
    assert not (tmp_path / "other").exists()
