"""What all executors share, and tasks in this process: in order, one at a time, withdrawn or stopped."""

from __future__ import annotations

import json
from dataclasses import asdict

from glassformer.study.running.executors.base import Ended, InlineExecutor, Started, Task

TASKS = [Task("trial", name) for name in "abc"]


def test_in_order_each_with_its_answer() -> None:
    executor = InlineExecutor(lambda task: {"it": task.label})
    expected = [event for task in TASKS for event in (Started(task), Ended(task, {"it": task.label}))]
    assert list(executor.run(TASKS)) == expected


def test_none_is_begun_after_a_stop() -> None:
    executor = InlineExecutor(lambda task: {})
    labels = []
    for event in executor.run(TASKS):
        labels.append(event.task.label)
        executor.stop()
    assert labels == ["a", "a"]


def test_a_task_survives_json() -> None:
    task = Task("trial", "alibi, seed 3", {"recipe": {"seed": 3}, "plugins": []})
    assert Task(**json.loads(json.dumps(asdict(task)))) == task


def test_withdrawn_tasks_are_not_begun() -> None:
    tasks = [Task("trial", name) for name in ("a", "b", "keep", "c")]
    executor = InlineExecutor(lambda task: {"status": "finished"})
    seen = []
    for event in executor.run(tasks):
        if isinstance(event, Started) and event.task.label == "a":
            taken = executor.withdraw(unless=lambda task: task.label == "keep")
            assert [task.label for task in taken] == ["b", "c"]
        if isinstance(event, Ended):
            seen.append(event.task.label)
    assert seen == ["a", "keep"]


def test_closing_begins_nothing_more() -> None:
    executor = InlineExecutor(lambda task: {})
    events = executor.run([Task("trial", "a"), Task("trial", "b")])
    next(events)
    executor.close()
    assert [type(event) for event in events] == [Ended]  # what was running ends; nothing else begins
