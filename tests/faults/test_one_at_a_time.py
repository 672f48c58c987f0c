"""A run has one owner at a time: a second process is told who it is and loses nothing; a killed one leaves no lock."""

from __future__ import annotations

import signal

import pytest

from glassformer.runs.directory import find_runs
from glassformer.runs.records import MetricsLog


@pytest.mark.parametrize("words", [(), ("--resume",)], ids=["a second train", "resume of a running run"])
def test_the_second_is_refused_and_told_who(fault, whole, words) -> None:
    first = fault.start(["slow_step", 10, str(fault.root / "there")])
    fault.until((fault.root / "there").exists)
    second = fault.start(words=words) if words else fault.start(words=("--quiet",))
    assert second.wait() == 1
    assert f"is being trained by process {first.pid} on " in second.said
    assert f"kill {first.pid}" in second.said
    (fault.root / "there-go").touch()
    assert first.wait() == 0, first.said
    steps = [record["step"] for record in MetricsLog(fault.run.metrics_file).read() if "loss" in record]
    assert steps == list(range(1, 31))
    assert fault.sums() == whole["sums"]
    assert not fault.run.lock_file.exists()


def test_a_killed_owner_holds_nothing(fault, whole) -> None:
    first = fault.start(["slow_step", 10, str(fault.root / "there")])
    fault.until((fault.root / "there").exists)
    first.kill(signal.SIGKILL)
    first.wait()
    fault.finish()
    assert fault.sums() == whole["sums"]


def test_a_hang_up_saves(fault, whole) -> None:
    """The terminal was closed: as SIGTERM, the step is saved."""
    child = fault.start(["slow_step", 10, str(fault.root / "there")])
    fault.until((fault.root / "there").exists)
    child.kill(signal.SIGHUP)
    (fault.root / "there-go").touch()
    assert child.wait() == 129
    assert fault.run.steps()[-1] == 11
    fault.finish()
    assert fault.sums() == whole["sums"]


def test_four_that_begin_at_once_get_a_folder_each(fault, tmp_path) -> None:
    words, meet = ["train", str(fault.file), "--set", "training.steps=2"], ["meet", str(tmp_path), 4]
    logs = [tmp_path / f"log-{number}" for number in range(4)]
    pids = [fault.nursery.ask(start=words, mishaps=[meet], log=str(log))["pid"] for log in logs]
    codes = [fault.nursery.ask(wait=pid)["code"] for pid in pids]
    assert codes == [0, 0, 0, 0], [log.read_text() for log in logs]
    names = [run.root.name for run in find_runs(tmp_path / "runs")]
    assert names == ["recipe", "recipe-2", "recipe-3", "recipe-4"]
