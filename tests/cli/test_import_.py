"""``glassformer import``: a run from a folder, which the other verbs take; a folder works where a run does."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(cli, trained: Path, tmp_path: Path) -> Path:
    """A GPT-2 folder: an export of ours, so that no other library is needed."""
    assert cli("export", trained, tmp_path / "folder", "--quiet").code == 0
    return tmp_path / "folder"


def test_a_folder_becomes_a_run(cli, folder: Path, tmp_path: Path) -> None:
    answer = cli("import", folder, "--out", tmp_path / "run")
    assert (answer.code, answer.out) == (0, f"{tmp_path / 'run'} (GPT2LMHeadModel)\n")
    answer = cli("import", folder, "--out", tmp_path / "again", "--json")
    assert answer.json == {"run": str(tmp_path / "again"), "class": "GPT2LMHeadModel", "notes": []}
    assert [row["status"] for row in cli("runs", tmp_path / "run", "--json").json["runs"]] == ["imported"]


def test_the_other_verbs_take_it(cli, folder: Path, trained: Path, tmp_path: Path) -> None:
    cli("import", folder, "--out", tmp_path / "run")
    ours, theirs = (
        cli("evaluate", run, "--text", "the cat sat on a mat", "--json").json for run in (trained, tmp_path / "run")
    )
    assert ours["metrics"]["loss"]["value"] == pytest.approx(theirs["metrics"]["loss"]["value"], abs=1e-6)
    ask = ("the cat", "--temperature", "0", "--max-new-tokens", "8", "--json")
    assert (
        cli("generate", trained, *ask).json
        == cli("generate", tmp_path / "run", *ask).json
        == cli("generate", folder, *ask).json
    )
    assert cli("check", tmp_path / "run", "--json").json["passed"]
    answer = cli("evaluate", tmp_path / "run")
    assert answer.code == 1
    assert "data.set=none: there is no text" in answer.sentence


def test_refusals_are_sentences(cli, folder: Path, trained: Path, tmp_path: Path) -> None:
    answer = cli("import", folder, "--out", trained)
    assert (answer.code, "is not empty" in answer.sentence) == (1, True)
    (folder / "model.safetensors").unlink()
    answer = cli("import", folder, "--out", tmp_path / "run")
    assert (answer.code, "there are no weights" in answer.sentence) == (1, True)
    assert not (tmp_path / "run").exists()
