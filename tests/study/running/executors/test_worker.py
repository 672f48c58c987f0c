"""A worker process: answers line by line, prints elsewhere, ends with its driver."""

from __future__ import annotations

import io
import json
import queue
import subprocess
import sys
import threading

import pytest

from glassformer.study.running.executors.base import Task
from glassformer.study.running.executors.worker import START, listen, serve

TASK = Task("nothing", "a task of no kind", {"cwd": ".", "plugins": []})


def test_it_serves_until_a_stop() -> None:
    tasks: queue.Queue[Task] = queue.Queue()
    for name in "abc":
        tasks.put(Task("x", name))
    answers = io.StringIO()
    serve(tasks, answers, lambda task: {"status": "stopped" if task.label == "b" else "finished", "of": task.label})
    ready, *lines = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert "ready" in ready
    assert [line["of"] for line in lines] == ["a", "b"]


def test_the_end_of_the_stream_is_seen_while_a_task_runs() -> None:
    gone = threading.Event()
    tasks = listen(io.StringIO(json.dumps(TASK.to_dict()) + "\n"), gone.set)
    assert gone.wait(timeout=300)
    assert tasks.get(timeout=300) == TASK


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
    worker.stdin.write(json.dumps(TASK.to_dict()) + "\n")
    worker.stdin.flush()
    answer = json.loads(worker.stdout.readline())
    assert answer["status"] == "failed"
    assert "KeyError" in answer["reason"]
    worker.stdin.close()
    assert worker.wait(timeout=300) == 0
