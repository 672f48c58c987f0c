"""Metrics: written line by line, read back as they were, whole again after a kill."""

from __future__ import annotations

import math

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import RunError
from glassformer.runs.records import MetricsLog


@pytest.fixture
def log(tmp_path) -> MetricsLog:
    return MetricsLog(tmp_path / "metrics.jsonl")


def test_there_and_back(log) -> None:
    records = [{"step": 1, "loss": 2.5, "note": "ä"}, {"step": 2, "loss": 2.25, "list": [1, None]}]
    for record in records:
        log.append(record)
    log.sync()
    assert log.read() == records


def test_nothing_yet(log) -> None:
    assert log.read() == []
    log.sync()
    log.cut_after(3)
    assert not log.file.exists()


def test_numbers_that_are_not_finite_are_recorded_as_they_are(log) -> None:
    log.append({"step": 1, "loss": math.nan, "grad_norm": math.inf, "low": -math.inf})
    (record,) = log.read()
    assert math.isnan(record["loss"])
    assert (record["grad_norm"], record["low"]) == (math.inf, -math.inf)
    assert '"loss": "nan"' in log.file.read_text()  # strict JSON: any reader can read it
    log.cut_after(1)
    assert math.isnan(log.read()[0]["loss"])


@pytest.mark.parametrize("torn", ['{"step": 3, "lo', "{", '{"step": 3, "loss": 1.0', "\0\0\0", '{"a": "ä'])
def test_a_torn_last_line_is_passed_over_and_healed(log, torn: str) -> None:
    log.append({"step": 1})
    log.append({"step": 2})
    with log.file.open("ab") as stream:
        stream.write(torn.encode()[:-1] if torn.endswith("ä") else torn.encode())
    assert [record["step"] for record in log.read()] == [1, 2]
    log.cut_after(1)
    log.append({"step": 2})
    assert log.file.read_text() == '{"step": 1}\n{"step": 2}\n'


@pytest.mark.parametrize("line", ['{"step": 1 "loss"}', "[1, 2]", "7"])
def test_a_changed_file_names_the_line(log, line: str) -> None:
    log.append({"step": 1})
    with log.file.open("a") as stream:
        stream.write(line + "\n")
    log.append({"step": 3})
    with refused(RunError, "damaged-json-line", "metrics.jsonl, line 2"):
        log.read()


def test_what_lies_beyond_a_step_is_forgotten(log) -> None:
    for step in (1, 2, 2, 3, 4):
        log.append({"step": step})
    log.cut_after(2)
    assert [record["step"] for record in log.read()] == [1, 2, 2]


def test_the_last_value_is_read_from_the_end(log) -> None:
    assert log.last("loss") is None
    log.append({"step": 1, "validation_loss": 2.5})
    for step in range(2, 5000):
        log.append({"step": step, "loss": float("nan") if step == 4999 else 1.0, "filler": "x" * 40})
    with log.file.open("a") as stream:
        stream.write('{"step": 5000, "loss": 7')
    assert math.isnan(log.last("loss"))
    assert log.last("validation_loss") == 2.5
    assert log.last("validation_loss", most=1 << 16) is None
    assert log.last("absent") is None
