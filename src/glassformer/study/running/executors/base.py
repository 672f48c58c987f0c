"""Executors: tasks in, events out, in the order in which they end; and the one that runs them in this process.

Tasks and answers are plain values, so that they can cross to another process or machine as JSON. Knows no study, and imports no
torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from glassformer.foundation.errors import ConfigError, GlassformerError, RunError


@dataclass(frozen=True)
class Task:
    """One piece of work: its kind (``study/running/perform_task.py`` does it), its name in messages, and its values."""

    kind: str
    label: str
    values: dict[str, Any] = field(default_factory=dict)
    program: str = ""
    """Tasks that name the same one train the same network on the same shapes, so one's compiled code serves the next one in the
    same process. Empty: it shares with none."""


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
    """Runs tasks somewhere, several at once. ``close`` it, so that no process is left behind."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._stopping = False

    @property
    def gpus(self) -> int:
        """How many GPUs the tasks share; 0 where that is not known."""
        return 0

    @property
    def travels(self) -> bool:
        """Whether a task may run where the study's folder is not seen, so that a trial comes back as a record."""
        return False

    def fit(self, needed_bytes: int) -> None:
        """Sets the memory that a task needs: where tasks share a GPU, no more of them run at once than fit."""
        return None

    def warm_up(self, count: int) -> None:
        """Announces ``count`` tasks, so that worker processes can start and import torch before the first one."""
        return None

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> Iterator[Event]:
        """Starts the tasks in order and yields events until all have ended."""

    @property
    def waiting(self) -> int:
        """How many tasks have not been started."""
        return len(self._waiting)

    def add(self, tasks: Sequence[Task], *, first: bool = False) -> None:
        """More tasks for the ``run`` that is going on, behind the waiting ones or before them."""
        self._waiting.extendleft(reversed(tasks)) if first else self._waiting.extend(tasks)

    def withdraw(self, unless: Callable[[Task], bool]) -> list[Task]:
        """Cancels the tasks that have not been started, except those for which ``unless`` is true; returns them."""
        withdrawn = [task for task in self._waiting if not unless(task)]
        self._waiting = deque(task for task in self._waiting if unless(task))
        return withdrawn

    def stop(self) -> None:
        """Starts no further task and asks running ones to save and end; then ``run`` ends."""
        self._stopping = True
        self._waiting.clear()

    @abstractmethod
    def close(self) -> None:
        """Ends everything at once."""


@final
class InlineExecutor(Executor):
    """Runs tasks in this process, one by one: for debuggers, and for classes of a notebook, which no other process knows."""

    def __init__(self, perform: Callable[[Task], dict[str, Any]]) -> None:
        super().__init__()
        self._perform = perform

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


def refusal(answer: Mapping[str, Any]) -> GlassformerError:
    """The error of a task that a worker refused. A setting that only the worker refuses is a variant that it does not know."""
    code = answer.get("code", "")
    if answer["exit_code"] != 2:
        return RunError(answer["reason"], reason=code)
    if code != "unknown-name":
        return ConfigError(answer["reason"], reason=code)
    return ConfigError(
        f"{answer['reason']} (The processes that train know built-in variants and those of --plugin files; a variant made in a "
        "notebook or script must be moved to such a file.)",
        reason=code,
    )
