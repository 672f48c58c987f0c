"""What all executors share: tasks as plain values, and taking back what has not begun."""

from __future__ import annotations

import json

from glassformer.study.running.executors.base import Ended, Started, Task
from glassformer.study.running.executors.inline import InlineExecutor


def test_a_task_survives_json() -> None:
    task = Task("trial", "alibi, seed 3", {"recipe": {"seed": 3}, "plugins": []})
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task


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


def test_leaving_the_with_ends_everything() -> None:
    with InlineExecutor(lambda task: {}) as executor:
        events = executor.run([Task("trial", "a"), Task("trial", "b")])
        next(events)
    assert [type(event) for event in events] == [Ended]  # what was running ends; nothing else begins
