"""Files of a run that are huge, or valid JSON without what belongs in them: named in a sentence, and only that run is lost."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import RunError
from glassformer.foundation.files import read_json, read_json_lines, read_text
from glassformer.runs.directory import RunDirectory
from glassformer.runs.live_curves import Curves
from glassformer.runs.overview import RunTable, summary_of
from glassformer.runs.records import MetricsLog

HUGE = 8 << 30
"""Bytes of a sparse file: more than these tests may take in memory."""


def made_run(folder: Path) -> RunDirectory:
    run = RunDirectory(folder)
    run.write_recipe({"seed": 1})
    run.write_environment({"threads": 1, "outputs": None})
    run.write_state("finished", step=1, steps=1)
    MetricsLog(run.metrics_file).append({"step": 1, "loss": 2.0, "validation_loss": 2.5})
    return run


def make_huge(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    os.truncate(file, HUGE)


READERS = {
    "recipe.yaml": RunDirectory.read_recipe,
    "environment.json": RunDirectory.read_environment,
    "state.json": RunDirectory.read_state,
    "timing.json": RunDirectory.timings,
    "notes.jsonl": RunDirectory.notes,
    "test-openings.jsonl": RunDirectory.openings,
    "metrics.jsonl": lambda run: MetricsLog(run.metrics_file).read(),
    "metrics.jsonl ": lambda run: Curves(run.metrics_file).update(),
}


@pytest.mark.parametrize("name", READERS)
def test_a_huge_file_is_refused_before_it_is_read(tmp_path, name: str) -> None:
    run = made_run(tmp_path)
    make_huge(run.root / name.strip())
    tracemalloc.start()
    try:
        with pytest.raises(RunError, match=name.strip()):
            READERS[name](run)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["recipe.yaml", "environment.json", "state.json", "notes.jsonl", "metrics.jsonl", ".lock"])
def test_one_bad_run_costs_its_own_row(tmp_path, name: str) -> None:
    for one in ("a", "bad", "c"):
        made_run(tmp_path / one)
    make_huge(tmp_path / "bad" / name)
    rows = {row["name"]: row["status"] for row in RunTable(tmp_path).to_dict()["runs"]}
    assert rows["a"] == rows["c"] == "finished"
    assert "bad" in rows


def test_bounded_reads(tmp_path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": 1}')
    assert read_json(file, most=8) == {"a": 1}
    with refused(RunError, "too-large", "a.json", "8 bytes"):
        read_text(file, most=7)
    file.write_text("[" * 100_000)
    with refused(RunError, "damaged-json", "a.json"):
        read_json(file)
    os.mkfifo(tmp_path / "pipe")
    with refused(RunError, "not-a-file", "pipe"):  # a pipe would never end
        read_json(tmp_path / "pipe")


def test_a_line_without_an_end_is_left_out(tmp_path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"step": 1}\n' + b"\0" * (3 << 20) + b'\n{"step": 2}\n')
    named: list[str] = []
    assert [one["step"] for one in read_json_lines(file, damaged=named.append)] == [1, 2]
    assert len(named) == 1
    assert "line 2" in named[0]


def test_curves_count_what_they_leave_out(tmp_path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"step": 1, "loss": 3.0}\n' + b"\0" * (20 << 20) + b'\n{"a": 1}\n{x}\n{"step": 2, "loss": 2.0}\n{"st')
    curves = Curves(file)
    curves.update()
    assert (curves.length("loss"), curves.damaged) == (2, 3)


@pytest.mark.parametrize(
    "line", ['{"a": 1}', '{"step": "x"}', '{"step": 2, "validation_loss": "low"}', "[1]", "{x}", '{"step": null}']
)
def test_a_damaged_record_is_named_and_left_out(tmp_path, line: str) -> None:
    run = made_run(tmp_path)
    with run.metrics_file.open("a") as stream:
        stream.write(line + "\n")
    log = MetricsLog(run.metrics_file)
    log.append({"step": 3, "loss": 1.0, "seconds": 2.0})
    named: list[str] = []
    assert [one["step"] for one in log.read(named.append)] == [1, 3]
    assert len(named) == 1
    assert "metrics.jsonl" in named[0]
    with pytest.raises(RunError, match=r"metrics\.jsonl"):
        log.read()
    log.cut_after(1, named.append)
    assert [one["step"] for one in log.read()] == [1]
    assert summary_of(run)["validation_loss"] == 2.5


@pytest.mark.parametrize("text", ['{"schema": 1}', "[]", "7", "{}"])
def test_a_damaged_environment_is_named(tmp_path, text: str) -> None:
    run = made_run(tmp_path)
    run.environment_file.write_text(text)
    with refused(RunError, "damaged-document", "environment.json"):
        run.read_environment("outputs")


@pytest.mark.parametrize("text", ['{"schema": 1, "data": 7}', '{"schema": 1, "ancestry": "x"}', '{"schema": 1, "metric": []}'])
def test_an_environment_of_other_types_is_named(tmp_path, text: str) -> None:
    run = made_run(tmp_path)
    run.environment_file.write_text(text)
    with refused(RunError, "damaged-document", "environment.json"):
        run.read_environment()


@pytest.mark.parametrize("text", ['{"schema": 1}', '{"status": 3}', '{"status": "finished", "step": "x"}', "[]"])
def test_a_damaged_state_is_named(tmp_path, text: str) -> None:
    run = made_run(tmp_path)
    run.state_file.write_text(text)
    with refused(RunError, "damaged-document", "state.json"):
        run.read_state()
