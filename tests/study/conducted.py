"""Trials that are made up, for tests of what a study does with them: an executor with losses of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.study.directory import StudyDirectory
from glassformer.study.history.attempts import ledger_of
from glassformer.study.history.ledger import Attempt
from glassformer.study.planning.variant_facts import VariantBook
from glassformer.study.running.executors.base import Ended, Event, Executor, Started, Task, Waiting
from glassformer.study.running.trial_store import machine_of
from glassformer.study.study import Study

PASSED = {"subject": "x", "findings": [], "tested": {}, "cannot_tell": {}, "not_judged": {}, "notes": [], "seconds": 0.0}
MADE_ON = machine_of({"threads": 1, "torch": "9.9"})
FINDING = {"law": "causality", "where": "merge", "from_position": 1, "to_position": 0, "size": 1.0, "example": {}}


class MakesUp(Executor):
    """Answers tasks at once: ``loss(variant, seed, recipe)`` is the loss of a trial, or the answer of one that fails."""

    def __init__(self, made_up: Any, loss: Callable[..., Any], leaks: Sequence[str], seconds: float) -> None:
        super().__init__()
        self.made_up, self.loss, self.leaks = made_up, loss, leaks
        self.done: list[str] = []
        self.needed: list[int] = []
        self.warmed: list[tuple[int, int]] = []
        """How many tasks were announced, and how many were done by then."""
        self.planned: set[float] = set()
        """FLOPs that trials were told the study plans on one GPU."""
        self.closed, self.seconds = False, seconds

    @property
    def slots(self) -> int:
        return 1

    @property
    def gpus(self) -> int:
        return 2

    def fit(self, needed_bytes: int) -> None:
        self.needed.append(needed_bytes)

    def warm_up(self, count: int) -> None:
        self.warmed.append((count, len(self.done)))

    def run(self, tasks: Sequence[Task]) -> Iterator[Event]:
        self._waiting.extend(tasks)
        while self._waiting:
            task = self._waiting.popleft()
            yield Started(task)
            yield Waiting()
            yield Ended(task, self.answer(task))
            self.done.append(task.label)

    def answer(self, task: Task) -> dict[str, Any]:
        if task.kind == "inspect":
            findings = [FINDING] if task.label in self.leaks else []
            figures = {"parameters": 9, "step_flops": 7, "memory_bytes": 5, "steps": 24, "tokens": 1680, "device": "cpu"}
            return {"status": "finished", "check": {**PASSED, "findings": findings}, "machine": MADE_ON, **figures}
        self.planned.add(task.values["planned_flops"])
        variant, _, rest = task.label.partition(", seed ")
        found = self.loss(variant, int(rest.split(" ")[0]), task.values["recipe"])
        if isinstance(found, dict):
            return {"seconds": 1.0, **found}
        many = type(self.made_up)(np.resize(self.made_up.tokens, 600))
        wave = np.sin(np.arange(600.0) * (1 + task.values["recipe"]["seed"]))
        tainted = "it leaks" if isinstance(found, Tainted) else None
        made = many.run(Path(task.values["folder"]), task.values["recipe"], found + 0.002 * wave, tainted=tainted)
        (made.checkpoint(24) / "weights").write_bytes(b"made up")
        when = {name: getattr(found, name, False) for name in ("before_training", "only_differs")}
        return {"status": "finished", "seconds": self.seconds, "notes": [], **when}

    def close(self) -> None:
        self.closed = True


class Tainted(float):
    """A loss of a model in which a check found a leak, measured all the same."""

    before_training: bool
    only_differs: bool

    def __new__(cls, loss: float, *, before_training: bool = False, only_differs: bool = False) -> Tainted:
        made = super().__new__(cls, loss)
        made.before_training, made.only_differs = before_training, only_differs
        return made


class Said(list):
    def say(self, sentence: str) -> None:
        self.append(sentence)

    def progress(self, *_: object) -> None: ...


def luck(seed: int) -> float:
    return 0.01 * np.sin(7.0 * seed)


def words(study: Study) -> dict[str, str]:
    return {verdict.variant: verdict.verdict for verdict in study.verdicts}


def effects(**effect: float) -> Callable[..., float]:
    """Seeds that go together, a difference per variant, and a little of its own for each pair."""

    def loss(variant: str, seed: int, recipe: Any) -> float:
        own = 0.0 if variant == "base" else 0.001 * np.cos(5.0 * seed + len(variant))
        return 1.5 + luck(seed) + effect.get(variant, 0.0) + own

    return loss


def entries(folder: Path) -> list[Attempt]:
    """The ledger's entries on the text of the study in ``folder``."""
    directory = StudyDirectory(folder)
    return ledger_of(directory.plan(), VariantBook.read(directory.variants_file)).attempts()
