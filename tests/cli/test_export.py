"""``glassformer export``: a folder, its class, and a sentence where there is none."""

from __future__ import annotations

from pathlib import Path

import glassformer as gf


def test_a_run_becomes_a_folder(cli, trained: Path, tmp_path: Path) -> None:
    answer = cli("export", trained, tmp_path / "folder")
    assert (answer.code, answer.out) == (0, f"{tmp_path / 'folder'} (GPT2LMHeadModel)\n")
    assert f"In Python: transformers.GPT2LMHeadModel.from_pretrained('{tmp_path / 'folder'}')" in answer.err
    assert (tmp_path / "folder" / "README.md").is_file()
    answer = cli("export", trained, tmp_path / "other", "--json", "--checkpoint", "4")
    assert answer.json == {"folder": str(tmp_path / "other"), "class": "GPT2LMHeadModel", "notes": []}
    assert "step 4 of the run" in (tmp_path / "other" / "README.md").read_text()


def test_refusals_are_sentences(cli, tiny, trained: Path, tmp_path: Path, unchecked) -> None:
    answer = cli("export", trained, trained)
    assert answer.code == 1
    assert "is not empty; choose another folder" in answer.sentence
    gf.train({**tiny, "model": {**tiny["model"], "positions": "alibi"}}, out=tmp_path / "run")
    answer = cli("export", tmp_path / "run", tmp_path / "folder")
    assert answer.code == 2
    assert "model.positions=alibi is not learned" in answer.sentence
    assert not (tmp_path / "folder").exists()
