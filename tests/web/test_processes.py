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
from glassformer.web.processes import PROCESS_BYTES, Processes, began, room, stop_run


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


def test_no_more_run_at_once_than_there_are_places(tmp_path: Path, monkeypatch) -> None:
    """Fifty starts at once: all are taken on, few run, each runs in its turn; one that waits can be taken back."""
    most, real = [0], subprocess.Popen

    def sleeper(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        started = real([sys.executable, "-c", "import time; time.sleep(0.3)"], **options)  # type: ignore[call-overload]
        most[0] = max(most[0], sum(one["state"] == "running" for one in processes.list()) + 1)
        order.append(command[-1])
        return started

    order: list[str] = []
    processes = Processes(tmp_path, places=2)
    monkeypatch.setattr(subprocess, "Popen", sleeper)
    monkeypatch.setattr("glassformer.web.processes.TURNS", 0.02)
    names = [f"run-{number:02}" for number in range(8)]
    states = [processes.start(name, "run", [name])["state"] for name in names]
    assert states == ["running", "running", *["waiting"] * 6]
    with refused(RunError, "already-started"):
        processes.start("run-05", "run", ["x"])
    processes.stop("run-06")
    wait_until(lambda: not any(one["alive"] for one in processes.list()), 60)
    assert order == [name for name in names if name != "run-06"]
    assert most[0] <= 2


def test_what_waits_is_started_by_the_next_server(tmp_path: Path) -> None:
    processes = Processes(tmp_path, places=1)
    processes.records.mkdir()
    record = {"schema": 1, "name": "a", "kind": "run", "pid": None, "began": None, "turn": 1}
    write_json(processes.records / "a.json", {**record, "command": ["glassformer", "recipes", "no-such-recipe"]})
    assert processes.list()[0]["state"] == "waiting"
    processes.take_turns()
    wait_until(lambda: processes.list()[0]["state"] == "ended")
    assert "no-such-recipe" in processes.list()[0]["said"]


def test_room_is_what_is_scarce() -> None:
    plenty = 1000 * PROCESS_BYTES
    assert room(cores=8, memory=plenty, gpus=0) == 8
    assert room(cores=8, memory=3 * PROCESS_BYTES, gpus=0) == 3
    assert room(cores=8, memory=plenty, gpus=2) == 2
    assert room(cores=2, memory=PROCESS_BYTES // 2, gpus=0) == 1  # it may still fit; the run says so when it does not


def test_each_run_has_a_gpu_of_its_own_and_a_study_sees_all(tmp_path: Path, monkeypatch) -> None:
    seen, real = list[str | None](), subprocess.Popen

    def sleeper(command: list[str], *, env: dict[str, str], **options: object) -> subprocess.Popen[bytes]:
        seen.append(env.get("CUDA_VISIBLE_DEVICES"))
        return real([sys.executable, "-c", "import time; time.sleep(60)"], env=env, **options)  # type: ignore[call-overload]

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(subprocess, "Popen", sleeper)
    processes = Processes(tmp_path, places=4)
    started = [processes.start(name, kind, ["train"]) for name, kind in (("a", "run"), ("b", "run"), ("c", "study"))]
    try:
        assert seen == ["0", "1", "0,1"]
        assert [one["gpu"] for one in processes.list()] == ["0", "1", None]
    finally:
        for one in started:
            os.kill(one["pid"], signal.SIGKILL)
