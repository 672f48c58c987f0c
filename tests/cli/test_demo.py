"""``glassformer demo``: the whole way, a study of four changes, here in a few steps of a tiny model."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from glassformer.cli.demo import open_in_page

FEW = [
    word
    for setting in (
        "training.steps=60",  # enough to beat the baselines
        "training.lr=0.03",
        "model.width=8",
        "model.heads=2",
        "model.layers=1",
        "model.context=16",
        "training.batch_size=2",
        "evaluation.every=60",
    )
    for word in ("--set", setting)
]


@pytest.mark.slow  # `make demo`, which CI runs before the tests, is the same with more steps
def test_the_whole_way_and_again(cli, tmp_path, tiny_text) -> None:
    words = ["demo", "--out", tmp_path / "demo", "--jobs", 1, *FEW, "--set", f"data.path={tiny_text}"]
    answer = cli(*words, "--json")
    assert answer.code == 0, answer.err
    document = answer.json
    assert len(document["verdicts"]) == 4
    assert "invalid" in {verdict["verdict"] for verdict in document["verdicts"]}  # the one that cheats
    page = Path(document["report"]).read_text(encoding="utf-8")
    assert "<html" in page
    assert 'src="http' not in page
    other = cli("demo", "--out", tmp_path / "other", *words[3:], "--json")  # from kept trials: nothing is trained
    assert other.code == 0, other.err
    taken = re.search(r"(\d+) of (\d+) trials are reused from earlier studies", other.err)
    assert taken is not None
    assert taken[1] == taken[2], other.err
    assert other.json["verdicts"] == document["verdicts"]
    answer = cli(*words)  # again: nothing is left to do
    assert answer.code == 0
    assert f"Report: {document['report']}" in answer.out
    assert answer.out.splitlines()[-1].endswith(f"glassformer serve {tmp_path / 'demo'}")  # opens the study in the page


@pytest.mark.slow
def test_a_baseline_that_learned_nothing_ends_the_study_from_kept_trials_too(cli, tmp_path, tiny_text) -> None:
    words = ["demo", "--jobs", 1, *[word.replace("lr=0.03", "lr=1e-7") for word in FEW], "--set", f"data.path={tiny_text}"]
    for folder in ("first", "second"):
        answer = cli(*words, "--out", tmp_path / folder)
        assert answer.code == 0, answer.err
        assert "24 trials of changes are not started" in answer.err
        assert [place.name for place in (tmp_path / folder / "trials").iterdir()] == ["base"]


def test_the_line_can_be_typed_where_the_program_is_not_on_the_path(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / ".venv" / "bin" / "glassformer")])
    assert open_in_page(Path("my demo")) == ".venv/bin/glassformer serve 'my demo'"
    (tmp_path / "glassformer").touch(0o755)
    assert open_in_page(Path("demo")) == "glassformer serve demo"
