"""Worker processes of this machine: each task once, lost ones again, stopped ones saved, none left behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from glassformer.study.running.executors.base import ATTEMPTS, Ended, Started, Task
from glassformer.study.running.executors.local import LocalExecutor


def task(label: str, tmp_path: Path, *plugins: Path) -> Task:
    """A task of no kind: its answer is a failure, which is all that is needed here. Plugins are run before it."""
    return Task("nothing", label, {"cwd": str(tmp_path), "plugins": [str(plugin) for plugin in plugins]})


def pids(executor: LocalExecutor) -> list[int]:
    return [worker.process.pid for worker in executor._workers]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_each_task_is_answered_once_by_processes_that_stay(tmp_path: Path) -> None:
    tasks = [task(f"number {number}", tmp_path) for number in range(5)]
    with LocalExecutor(2, logs=tmp_path / "logs") as executor:
        events = list(executor.run(tasks))
        before = pids(executor)
        assert len(before) == 2
        again = [event for event in executor.run(tasks[:1]) if isinstance(event, Ended)]
        assert pids(executor) == before
    ended = [event for event in events if isinstance(event, Ended)]
    assert sorted(event.task.label for event in ended) == sorted(one.label for one in tasks)
    assert [event.task for event in events if isinstance(event, Started)] == tasks
    assert {event.answer["status"] for event in (*ended, *again)} == {"failed"}
    assert not any(alive(pid) for pid in before)


def test_a_task_that_kills_its_process_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    deadly, count = tmp_path / "deadly.py", tmp_path / "count"
    deadly.write_text(
        f"import os, signal\nwith open({str(count)!r}, 'a') as f: f.write('x')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with LocalExecutor(1, logs=tmp_path / "logs") as executor:
        events = list(executor.run([task("deadly", tmp_path, deadly), task("harmless", tmp_path)]))
    answers = {event.task.label: event.answer for event in events if isinstance(event, Ended)}
    assert answers["deadly"]["lost"].startswith("its process ended by signal 9")
    assert answers["harmless"]["status"] == "failed"
    assert count.read_text() == "x" * ATTEMPTS


def test_what_a_plugin_prints_goes_to_the_log(tmp_path: Path) -> None:
    noisy = tmp_path / "noisy.py"
    noisy.write_text("print('heard from a plugin', flush=True)\n")
    with LocalExecutor(1, logs=tmp_path / "logs") as executor:
        events = list(executor.run([task("noisy", tmp_path, noisy)]))
    assert [event.answer["status"] for event in events if isinstance(event, Ended)] == ["failed"]
    assert "heard from a plugin" in (tmp_path / "logs" / "worker-1.log").read_text()


def test_a_stop_starts_nothing_more(tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(60)\n")
    with LocalExecutor(1, logs=tmp_path / "logs") as executor:
        labels: list[Any] = []
        for event in executor.run([task("sleeps", tmp_path, sleeper), task("never", tmp_path)]):
            if isinstance(event, Started):
                executor.stop()
            if isinstance(event, Ended):
                labels.append((event.task.label, "lost" in event.answer))
    assert labels == [("sleeps", True)]


@pytest.mark.parametrize(("free", "jobs"), [(10**12, 16), (0, 2)])
def test_gpus_are_shared_as_their_memory_allows(tmp_path: Path, free: int, jobs: int) -> None:
    executor = LocalExecutor(16, logs=tmp_path, gpus=["0", "1"], gpu_bytes=free)
    executor.fit(10**9)
    assert executor.slots == jobs
    without = LocalExecutor(16, logs=tmp_path)
    without.fit(10**12)
    assert without.slots == 16


def test_workers_on_a_gpu_do_not_each_compile_with_every_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.study.running.executors.local.cores", lambda: 16)
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS", raising=False)
    shared = LocalExecutor(5, logs=tmp_path, gpus=["7"])._environment("7")
    assert (shared["TORCHINDUCTOR_COMPILE_THREADS"], shared["CUDA_VISIBLE_DEVICES"], shared["OMP_NUM_THREADS"]) == (
        "3",
        "7",
        "1",
    )
    assert "TORCHINDUCTOR_COMPILE_THREADS" not in LocalExecutor(5, logs=tmp_path)._environment(None)
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "2")
    assert LocalExecutor(5, logs=tmp_path, gpus=["7"])._environment("7")["TORCHINDUCTOR_COMPILE_THREADS"] == "2"
