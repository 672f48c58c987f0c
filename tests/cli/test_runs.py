"""``glassformer runs``."""

from __future__ import annotations

import shutil

from glassformer.cli.runs import spark
from glassformer.runs.directory import RunDirectory


def test_a_table_of_what_differs(cli, trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "a")
    shutil.copytree(trained, tmp_path / "b")
    recipe = tmp_path / "b" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 5", "seed: 6"))
    assert "seed" not in cli("runs", tmp_path).out  # on request
    answer = cli("runs", tmp_path, "--all")
    assert answer.code == 0
    assert "seed" in answer.out
    assert "finished" in answer.out
    document = cli("runs", tmp_path, "--json").json
    assert document["differing"] == ["seed"]
    assert [(row["name"], row["status"], row["settings"]["seed"]) for row in document["runs"]] == [
        ("a", "finished", 5),
        ("b", "finished", 6),
    ]


def test_no_runs_and_no_folder(cli, tmp_path) -> None:
    answer = cli("runs", tmp_path)
    assert (answer.code, answer.out) == (0, f"No runs in {tmp_path}.\n")
    assert cli("runs", tmp_path, "--json").json == {"runs": [], "differing": []}
    answer = cli("runs", tmp_path / "absent")
    assert answer.code == 1
    assert "is not a folder" in answer.sentence


def test_a_diverged_run_says_so(cli, trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "a")
    RunDirectory(tmp_path / "a").write_state("diverged", step=3)
    assert cli("runs", tmp_path, "--json").json["runs"][0]["status"] == "diverged"


def test_twenty_different_runs_are_a_table_of_six_columns(cli, trained, tmp_path) -> None:
    """Each run a line, however many settings differ; the line of a curve, and the best baseline beside the metric."""
    for at in range(20):
        shutil.copytree(trained, tmp_path / f"run-{at}")
        recipe = tmp_path / f"run-{at}" / "recipe.yaml"
        recipe.write_text(recipe.read_text().replace("seed: 5", f"seed: {at}").replace("width: 12", f"width: {2 * at + 2}"))
    title, header, *rows = cli("runs", tmp_path).out.splitlines()
    assert header.split() == ["run", "status", "step", "validation", "loss", "data", "loss"]
    assert len(rows) == 20
    assert all("bigram" in row and "█" in row for row in rows)
    assert spark([3.0, 1.0, 2.0]) == "█▁▅"
    assert spark([2.0, 2.0]) == "▁▁"
    assert title == str(tmp_path)
