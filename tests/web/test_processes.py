"""Processes that outlive whoever started them, are found again by number and moment, and are never mistaken."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import RunError
from glassformer.foundation.files import read_json, write_json
from glassformer.runs.directory import RunDirectory
from glassformer.web.processes import Processes, began, stop_run


def wait_until(holds, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def test_started_ended_and_found_again(tmp_path: Path) -> None:
    started = Processes(tmp_path).start("a/b", "run", ["recipes", "no-such-recipe"])
    assert started["alive"]
    assert os.getsid(started["pid"]) != os.getsid(0)  # Ctrl-C here does not reach it
    wait_until(lambda: not Processes(tmp_path).list()[0]["alive"])
    (found,) = Processes(tmp_path).list()
    assert found["name"] == "a/b"
    assert "no-such-recipe" in found["said"]
    with refused(RunError, "not-running"):
        Processes(tmp_path).stop("a/b")


def test_another_process_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        processes = Processes(tmp_path)
        processes.records.mkdir()
        record = {"schema": 1, "name": "a", "kind": "run", "pid": other.pid, "began": "before", "command": ["glassformer"]}
        write_json(processes.records / "a.json", record)
        assert not processes.list()[0]["alive"]
        with pytest.raises(RunError):
            processes.stop("a")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


HOLDER = (
    "import sys, time; from pathlib import Path; from glassformer.runs.directory import RunDirectory\n"
    "with RunDirectory(Path(sys.argv[1])).lock(): print('held', flush=True); time.sleep(60)"
)


def test_only_the_process_that_holds_a_run_is_stopped(folder: Path) -> None:
    run = RunDirectory(folder / "one")
    with refused(RunError, "process-gone"):
        stop_run(run)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(run.root)], stdout=subprocess.PIPE, text=True)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)  # glassformer"])
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        lock = run.lock_file.read_text()
        write_json(run.state_file, {"status": "running", "pid": other.pid})  # as if it had been written on another machine
        run.lock_file.write_text(f"{other.pid} another-machine")
        with refused(RunError, "on-another-machine", "another-machine"):
            stop_run(run)
        run.lock_file.write_text(lock)
        stop_run(run)
        assert holder.wait(60) == -signal.SIGTERM
        with refused(RunError, "process-gone"):  # the lock file is still there, with the number of a dead process
            stop_run(run)
        assert other.poll() is None
    finally:
        for one in (holder, other):
            one.kill()
            one.wait()
        holder.stdout.close()  # type: ignore[union-attr]


def test_a_dead_process_that_nobody_buried_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    wait_until(lambda: began(child.pid) is None)
    child.wait()
    assert began(os.getpid()) is not None


def test_a_damaged_record_is_passed_over(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.records.mkdir()
    (processes.records / "x.json").write_text("{")
    write_json(processes.records / "y.json", {"schema": 1})
    write_json(processes.records / "z.json", {"schema": 1, "name": "z", "kind": "run", "pid": "abc", "command": []})
    assert processes.list() == []
    assert read_json(processes.records / "y.json") == {"schema": 1}
