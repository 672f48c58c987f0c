"""Tasks in this very process, one after the other: for debuggers, and for studies too small to start processes for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

from glassformer.study.running.executors.base import Ended, Event, Executor, Started, Task

Perform = Callable[[Task], dict[str, Any]]


@final
class InlineExecutor(Executor):
    """``perform`` does the work; it is given, so that this module needs no torch."""

    def __init__(self, perform: Perform) -> None:
        super().__init__()
        self._perform = perform

    @property
    def slots(self) -> int:
        return 1

    @property
    def gpus(self) -> int:
        return 1  # the one that this process would use

    def run(self, tasks: Sequence[Task]) -> Iterator[Event]:
        self._waiting.extend(tasks)
        while self._waiting:
            task = self._waiting.popleft()
            yield Started(task)
            yield Ended(task, self._perform(task))

    def close(self) -> None:
        self._waiting.clear()
