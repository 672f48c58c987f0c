"""What an executor is: tasks in, events out, in whatever order they end. Knows no study; imports no torch.

A task is plain values, so that it can cross to another process or machine as JSON; its answer is plain values too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from glassformer.foundation.errors import ConfigError, GlassformerError, RunError


@dataclass(frozen=True)
class Task:
    """One piece of work: what to do (``study/running/work.py`` knows how), what it is called in sentences, and its values."""

    kind: str
    label: str
    values: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "label": self.label, "values": self.values}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Task:
        return cls(document["kind"], document["label"], document["values"])


@dataclass(frozen=True)
class Started:
    task: Task


@dataclass(frozen=True)
class Ended:
    """``answer``: what the task gave; ``{"lost": why}`` when the process or node that had it is gone for good."""

    task: Task
    answer: dict[str, Any]


@dataclass(frozen=True)
class Waiting:
    """Nothing happened for a moment: time to look at progress."""


Event = Started | Ended | Waiting

ATTEMPTS = 3  # a task whose process or node is lost is tried this often


class Executor(ABC):
    """Runs tasks somewhere, several at once. Used in a ``with``, so that no process is left behind."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._stopping = False

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many tasks run at once, for the time that is left."""

    @property
    def gpus(self) -> int:
        """How many GPUs the tasks share; 0 where that is not known."""
        return 0

    def fit(self, needed_bytes: int) -> None:
        """Told how much memory a task takes; an executor that shares a GPU runs fewer at once where it must."""
        return None

    def warm_up(self, count: int) -> None:
        """Told that ``count`` tasks will come: an executor of processes starts them, and they import torch meanwhile."""
        return None

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> Iterator[Event]:
        """Starts tasks in the order given and tells what happens, until all have ended."""

    def withdraw(self, unless: Callable[[Task], bool]) -> list[Task]:
        """Takes back the tasks that have not been started, but those that ``unless`` wants to keep."""
        taken = [task for task in self._waiting if not unless(task)]
        self._waiting = deque(task for task in self._waiting if unless(task))
        return taken

    def stop(self) -> None:
        """No task is started any more; running ones are asked to save and end. ``run`` then comes to its end."""
        self._stopping = True
        self._waiting.clear()

    @abstractmethod
    def close(self) -> None:
        """Ends everything at once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def refusal(answer: Mapping[str, Any]) -> GlassformerError:
    """What a worker said that refused a task. A setting that this process accepts and a worker does not is known here only."""
    if answer["exit_code"] != 2:
        return RunError(answer["reason"])
    return ConfigError(
        f"{answer['reason']} (The processes that train know built-in variants and those of --plugin files; a variant made in a "
        "notebook or script belongs into such a file.)"
    )
