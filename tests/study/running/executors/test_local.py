"""Worker processes of this machine: their tasks, their end, the cores and GPUs they share."""

from __future__ import annotations

import io
import json
import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.study.running.executors import local
from glassformer.study.running.executors.base import ATTEMPTS, Ended, Started, Task
from glassformer.study.running.executors.local import (
    MPS_CONTROL,
    PER_GPU,
    PROCESS_BYTES,
    START,
    LocalExecutor,
    MultiProcessService,
    listen,
    per_gpu,
    serve,
)


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
    with closing(LocalExecutor(2, logs=tmp_path / "logs")) as executor:
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
    with closing(LocalExecutor(1, logs=tmp_path / "logs")) as executor:
        events = list(executor.run([task("deadly", tmp_path, deadly), task("harmless", tmp_path)]))
    answers = {event.task.label: event.answer for event in events if isinstance(event, Ended)}
    assert answers["deadly"]["lost"].startswith("its process ended by signal 9")
    assert answers["harmless"]["status"] == "failed"
    assert count.read_text() == "x" * ATTEMPTS


def test_what_a_plugin_prints_goes_to_the_log(tmp_path: Path) -> None:
    noisy = tmp_path / "noisy.py"
    noisy.write_text("print('heard from a plugin', flush=True)\n")
    with closing(LocalExecutor(1, logs=tmp_path / "logs")) as executor:
        events = list(executor.run([task("noisy", tmp_path, noisy)]))
    assert [event.answer["status"] for event in events if isinstance(event, Ended)] == ["failed"]
    assert "heard from a plugin" in (tmp_path / "logs" / "worker-1.log").read_text()


def test_a_stop_starts_nothing_more(tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(60)\n")
    with closing(LocalExecutor(1, logs=tmp_path / "logs")) as executor:
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
    assert executor.jobs == jobs
    without = LocalExecutor(16, logs=tmp_path)
    without.fit(10**12)
    assert without.jobs == 16


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


def test_on_a_gpu_a_worker_stays_with_what_it_has_compiled(tmp_path: Path) -> None:
    """Nobody joins a program that is being compiled while another one waits; who is done goes on with its own."""

    def labels(gpus: list[str]) -> list[str]:
        executor = LocalExecutor(5, logs=tmp_path, gpus=gpus)
        executor._workers = workers = [Idle() for _ in range(5)]  # type: ignore[misc]
        executor.add([Task("trial", f"{program}{number}", {}, program) for program in "ab" for number in range(6)])
        list(executor._hand_out())
        first = [worker.task.label for worker in workers]
        workers[3].task = workers[0].task = None
        list(executor._hand_out())
        workers[1].task = None
        executor.add([Task("inspect", "c", {})])  # others may wait for it
        list(executor._hand_out())
        return [*first, workers[0].task.label, workers[3].task.label, workers[1].task.label]

    assert labels(["0"]) == ["a0", "b0", "a1", "b1", "a2", "a3", "b2", "c"]
    assert labels([]) == ["a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1"]  # nothing is compiled: in order


def test_on_a_gpu_a_compiled_program_is_joined_by_a_few(tmp_path: Path) -> None:
    executor = LocalExecutor(6, logs=tmp_path, gpus=["0"])
    executor._workers = workers = [Idle() for _ in range(6)]  # type: ignore[misc]
    executor._ran.add("a")
    executor.add([Task("trial", f"a{number}", {}, "a") for number in range(9)] + [Task("trial", "b0", {}, "b")])
    list(executor._hand_out())
    assert [worker.task.label for worker in workers] == ["a0", "a1", "a2", "b0", "a3", "a4"]  # three, then whoever is left


class Idle:
    """A worker without a process."""

    def __init__(self) -> None:
        self.task: Any = None
        self.program = ""

    def give(self, task: Task) -> None:
        self.task, self.program = task, task.program or self.program


def test_a_worker_asks_cuda_to_wait_asleep_on_each_of_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    driver = SimpleNamespace(cuInit=lambda flags: asked.append("init"), cuDevicePrimaryCtxSetFlags=lambda *of: asked.append(of))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setattr(local.ctypes, "CDLL", lambda name: driver)
    local.sleep_while_waiting()
    assert asked == ["init", (0, 4), (1, 4)]


UNKNOWN_TASK = Task("nothing", "a task of no kind", {"cwd": ".", "plugins": []})


def test_it_serves_until_a_stop() -> None:
    tasks: queue.Queue[Task] = queue.Queue()
    for name in "abc":
        tasks.put(Task("x", name))
    answers = io.StringIO()
    serve(tasks, answers, lambda task: {"status": "stopped" if task.label == "b" else "finished", "of": task.label})
    lines = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [line["of"] for line in lines] == ["a", "b"]


def test_the_end_of_the_stream_is_seen_while_a_task_runs() -> None:
    gone = threading.Event()
    tasks = listen(io.StringIO(json.dumps(vars(UNKNOWN_TASK)) + "\n"), gone.set)
    assert gone.wait(timeout=300)
    assert tasks.get(timeout=300) == UNKNOWN_TASK


@pytest.fixture
def worker():
    process = subprocess.Popen(
        [sys.executable, "-c", START, json.dumps(sys.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        stream.close()


def test_a_real_one_answers_and_dies_with_its_driver(worker) -> None:
    assert "ready" in json.loads(worker.stdout.readline())
    worker.stdin.write(json.dumps(vars(UNKNOWN_TASK)) + "\n")
    worker.stdin.flush()
    answer = json.loads(worker.stdout.readline())
    assert answer["status"] == "failed"
    assert "KeyError" in answer["reason"]
    worker.stdin.close()
    assert worker.wait(timeout=300) == 0


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that writes down how it was called; gives that list."""
    calls, program = tmp_path / "calls", tmp_path / "bin" / MPS_CONTROL
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@ in $CUDA_MPS_PIPE_DIRECTORY of $CUDA_VISIBLE_DEVICES" >> {calls}\n'
        f'[ -n "$1" ] || cat >> {calls}\nexit ${{REFUSE:-0}}\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(local, "MPS_DEFAULT_FOLDER", tmp_path / "nobody's")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    return calls


def test_the_service_is_started_once_sees_all_gpus_and_is_ended(service: Path) -> None:
    shared = MultiProcessService()
    shared.start()
    shared.start()
    folder = Path(shared.environment["CUDA_MPS_PIPE_DIRECTORY"])
    assert folder.is_dir()
    shared.close()
    assert service.read_text() == f"-d in {folder} of \n in {folder} of \nquit\n"
    assert not folder.exists()
    assert shared.environment == {}


def test_a_service_that_refuses_or_is_there_already_is_left_alone(service: Path, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("REFUSE", "1")
    shared = MultiProcessService()
    shared.start()
    assert shared.environment == {}
    shared.close()
    monkeypatch.setenv("REFUSE", "0")
    (tmp_path / "usual").mkdir()
    (tmp_path / "usual" / "control").touch()
    with monkeypatch.context() as patch:
        patch.setattr(local, "MPS_DEFAULT_FOLDER", tmp_path / "usual")
        MultiProcessService().start()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/somewhere")
    MultiProcessService().start()
    assert len(service.read_text().splitlines()) == 1


def test_it_ends_with_a_driver_that_is_killed(service: Path) -> None:
    program = (
        "import os, signal\nfrom glassformer.study.running.executors.local import MultiProcessService\n"
        "shared = MultiProcessService()\nshared.start()\n"
        "print(shared.environment['CUDA_MPS_PIPE_DIRECTORY'], flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -9
    until = time.monotonic() + 300
    while Path(done.stdout.strip()).exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(done.stdout.strip()).exists()
    assert service.read_text().endswith("quit\n")


@pytest.mark.parametrize(
    ("jobs", "gpus", "started"), [(2, ["0"], True), (1, ["0"], False), (2, ["0", "1"], False), (2, [], False)]
)
def test_workers_that_share_a_gpu_share_the_service(service: Path, tmp_path, jobs: int, gpus: list[str], started: bool) -> None:
    with closing(LocalExecutor(jobs, logs=tmp_path / "logs", gpus=gpus, gpu_bytes=1 << 40)) as executor:
        executor.warm_up(jobs)
        assert ("CUDA_MPS_PIPE_DIRECTORY" in executor._environment(gpus[0] if gpus else None)) == started
    assert service.exists() == started


def test_after_two_processes_were_lost_the_next_ones_do_without(service: Path, tmp_path) -> None:
    with closing(LocalExecutor(2, logs=tmp_path / "logs", gpus=["0"], gpu_bytes=1 << 40)) as executor:
        executor.warm_up(2)
        for shared in (True, False):
            executor._workers[0].process.kill()
            assert list(executor._lost(executor._workers[0])) == []
            assert ("CUDA_MPS_PIPE_DIRECTORY" in executor._environment("0")) == shared
    assert service.read_text().endswith("quit\n")


def test_shares_of_a_gpu_follow_its_memory() -> None:
    one = 1_000_000_000
    per_trial = int(1.5 * one) + PROCESS_BYTES
    assert per_gpu(one, 2 * per_trial) == 2
    assert per_gpu(one, 2 * per_trial - 1) == 1
    assert per_gpu(one, 0) == 1  # it may still fit; the run says so when it does not
    assert per_gpu(one, 100 * per_trial) == PER_GPU
    assert per_gpu(one, 100 * per_trial, 14) == 14  # more than usual, because it was asked for
    assert per_gpu(one, 3 * per_trial, 14) == 3
