"""Tasks in this process: in order, one at a time, and none after a stop."""

from __future__ import annotations

from glassformer.study.running.executors.base import Ended, Started, Task
from glassformer.study.running.executors.inline import InlineExecutor

TASKS = [Task("trial", name) for name in "abc"]


def test_in_order_each_with_its_answer() -> None:
    executor = InlineExecutor(lambda task: {"it": task.label})
    expected = [event for task in TASKS for event in (Started(task), Ended(task, {"it": task.label}))]
    assert list(executor.run(TASKS)) == expected
    assert executor.slots == 1


def test_none_is_begun_after_a_stop() -> None:
    executor = InlineExecutor(lambda task: {})
    labels = []
    for event in executor.run(TASKS):
        labels.append(event.task.label)
        executor.stop()
    assert labels == ["a", "a"]
