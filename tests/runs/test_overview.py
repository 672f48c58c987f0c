"""Runs side by side: how each stands, in which settings they differ; one damaged run hides no other."""

from __future__ import annotations

import math
import os
from pathlib import Path

from glassformer.foundation.metrics import ACCURACY, LOSS
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import RunTable, best_baseline, data_name, last_validation, overview, progress_of
from glassformer.runs.records import MetricsLog


def made(folder: Path, *, width: int = 8, losses: tuple[float, ...] = (), status: str = "finished") -> RunDirectory:
    run = RunDirectory(folder)
    run.write_recipe({"about": folder.name, "model": {"width": width, "norm": {"kind": "rms"}}, "seed": 1})
    run.write_state(status, step=20)
    for step, loss in enumerate(losses, start=1):
        MetricsLog(run.metrics_file).append({"step": step, "loss": 9.0})
        MetricsLog(run.metrics_file).append({"step": step, "validation_loss": loss})
    return run


def test_by_hand(tmp_path) -> None:
    made(tmp_path / "a", losses=(3.0, 2.5))
    made(tmp_path / "b", width=16, status="stopped")
    os.utime(RunDirectory(tmp_path / "a").state_file, (100, 100))
    os.utime(RunDirectory(tmp_path / "b").state_file, (200, 200))
    table = overview(tmp_path)
    assert table["differing"] == ["model.width"]  # descriptions are no settings
    assert table["runs"] == [
        {
            "name": "a",
            "folder": str(tmp_path / "a"),
            "status": "finished",
            "step": 20,
            "steps": None,
            "metric": "loss",
            "validation_loss": 2.5,
            "baseline": None,
            "data": None,
            "curve": [9.0, 9.0],
            "changed": 100.0,
            "objective": "next-token",
            "generates": True,
            "answers": False,
            "abstains": False,
            "translates": False,
            "notes": [],
            "tainted": False,
            "ancestry": [],
            "settings": {"model.width": 8},
        },
        {
            "name": "b",
            "folder": str(tmp_path / "b"),
            "status": "stopped",
            "step": 20,
            "steps": None,
            "metric": "loss",
            "validation_loss": None,
            "baseline": None,
            "data": None,
            "curve": [],
            "changed": 200.0,
            "objective": "next-token",
            "generates": True,
            "answers": False,
            "abstains": False,
            "translates": False,
            "notes": [],
            "tainted": False,
            "ancestry": [],
            "settings": {"model.width": 16},
        },
    ]


def test_one_run_by_its_own_folder(tmp_path) -> None:
    made(tmp_path / "a")
    (row,) = overview(tmp_path / "a")["runs"]
    assert row["name"] == "a"
    assert overview(tmp_path / "a")["differing"] == []


def test_running_is_a_run_whose_lock_is_held(tmp_path) -> None:
    """Not one whose number some process has: numbers are given again, and another machine has its own."""
    run = made(tmp_path / "a", status="running")  # with the number of this very process, which trains nothing
    (run.checkpoint(7)).mkdir(parents=True)
    assert (progress_of(run)["status"], progress_of(run)["step"]) == ("killed", 7)
    with run.lock():
        assert progress_of(run)["status"] == "running"
        run.lock_file.write_text("999999999 another-machine")
        assert progress_of(run)["status"] == "running"
    assert progress_of(run)["status"] == "killed"


def test_a_loss_that_is_not_finite_is_no_number_in_the_table(tmp_path) -> None:
    run = made(tmp_path / "a", losses=(2.0, math.nan))
    assert math.isnan(last_validation(run, "validation_loss"))
    assert overview(tmp_path)["runs"][0]["validation_loss"] is None


def test_one_damaged_run_hides_no_other(tmp_path) -> None:
    made(tmp_path / "a")
    made(tmp_path / "b").recipe_file.write_bytes(b"\xff")
    made(tmp_path / "c").state_file.write_bytes(b"{")
    assert [(row["name"], row["status"]) for row in overview(tmp_path)["runs"]] == [
        ("a", "finished"),
        ("b", "damaged"),
        ("c", "damaged"),
    ]
    assert overview(tmp_path)["differing"] == []


def test_notes_and_settings_of_one_asking_are_not_those_of_the_next(tmp_path) -> None:
    run = made(tmp_path / "a")
    made(tmp_path / "b", width=9)
    table = RunTable(tmp_path)
    first = table.to_dict()
    first["runs"][0]["notes"].append("mine")
    first["runs"][0]["settings"]["model.width"] = 1
    first["differing"].clear()
    run.add_note("kept")
    assert [(row["notes"], row["settings"]) for row in table.to_dict()["runs"]] == [
        (["kept"], {"model.width": 8}),
        ([], {"model.width": 9}),
    ]


def test_sections_that_one_recipe_has_and_values_of_all_kinds(tmp_path) -> None:
    for name, recipe in {
        "a": {"model": {"norm": {"kind": "rms"}, "betas": [1, 2]}, "init_from": None},
        "b": {"model": {"norm": {"kind": "layer", "eps": 1}, "betas": [1, 2]}, "seed": 1},
        "c": {"model": {"norm": {"kind": "rms"}, "betas": [1, 3]}, "seed": True},
    }.items():
        RunDirectory(tmp_path / name).write_recipe(recipe)
    table = overview(tmp_path)
    assert table["differing"] == ["model.norm.kind", "model.betas", "model.norm.eps", "seed"]
    assert [list(row["settings"].values()) for row in table["runs"]] == [
        ["rms", [1, 2], None, None],
        ["layer", [1, 2], 1, 1],
        ["rms", [1, 3], None, True],  # 1 and True are not the same setting
    ]


def test_what_has_not_changed_is_not_read_again(tmp_path, monkeypatch) -> None:
    run = made(tmp_path / "a", losses=(3.0,))
    table = RunTable(tmp_path)
    first = table.to_dict()
    read, recipe = [], RunDirectory.read_recipe
    monkeypatch.setattr(RunDirectory, "read_recipe", lambda self: read.append(self) or recipe(self))
    assert table.to_dict() == first
    assert read == []
    MetricsLog(run.metrics_file).append({"step": 2, "validation_loss": 2.0})
    assert table.to_dict()["runs"][0]["validation_loss"] == 2.0
    run.write_recipe({"model": {"width": 9}})
    assert table.to_dict() != first
    assert len(read) == 1


def test_the_best_baseline_and_the_data_in_a_word() -> None:
    assert best_baseline({"uniform": 4.5, "bigram": 2.4}, LOSS) == {"name": "bigram", "value": 2.4}
    assert best_baseline({"majority": 0.6, "bag of words": 0.8}, ACCURACY) == {"name": "bag of words", "value": 0.8}
    assert best_baseline({}, LOSS) is None
    assert best_baseline("damaged", LOSS) is None
    assert data_name({"data": {"set": "speeches", "path": None}}) == "speeches"
    assert data_name({"data": {"set": {"kind": "world", "people": 100}}}) == "world"
    assert data_name({"data": {"path": "/home/me/texts/mine.txt"}}) == "mine.txt"
    assert data_name({}) is None


def test_the_small_curve_is_spread_over_a_long_file(tmp_path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.file.write_text("".join(f'{{"step": {at}, "loss": {10000 - at}, "more": "{"x" * 30}"}}\n' for at in range(10000)))
    found = log.sampled("loss", 24)
    assert len(found) == 24
    assert found == sorted(found, reverse=True)
    assert found[0] > 9900
    assert found[-1] < 600
    assert log.sampled("absent", 24) == []
    assert MetricsLog(tmp_path / "none.jsonl").sampled("loss", 24) == []
