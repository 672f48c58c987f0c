"""``glassformer runs``."""

from __future__ import annotations

import shutil

from glassformer.runs.directory import RunDirectory


def test_a_table_of_what_differs(cli, trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "a")
    shutil.copytree(trained, tmp_path / "b")
    recipe = tmp_path / "b" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 5", "seed: 6"))
    answer = cli("runs", tmp_path)
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
