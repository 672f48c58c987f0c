"""Children of a warm process: started, killed, waited for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from glassformer.foundation.yaml_text import dump_yaml
from glassformer.runs.checkpoint import checkpoint_checksums, verify_checkpoint
from glassformer.runs.directory import RunDirectory


class Nursery:
    """The warm process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("nursery.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=300)  # no more requests: it ends; and both pipes are closed


@pytest.fixture(scope="session")
def nursery(tiny_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    warm, folder = Nursery(), tmp_path_factory.mktemp("warm")
    recipe = {"data": {"path": str(tiny_text)}, "model": {"width": 8, "heads": 2, "layers": 1, "context": 16}}
    (folder / "recipe.yaml").write_text(dump_yaml({**recipe, "training": {"steps": 2, "device": "cpu"}}), encoding="utf-8")
    answer = warm.ask(warm=["train", str(folder / "recipe.yaml"), "--out", str(folder / "run"), "--quiet"])
    assert answer == {"code": 0}
    yield warm
    warm.close()


@dataclass
class Child:
    nursery: Nursery
    pid: int
    log: Path

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit code, or minus the signal that ended it."""
        return self.nursery.ask(wait=self.pid)["code"]

    @property
    def said(self) -> str:
        return self.log.read_text()


@dataclass
class Fault:
    """One run's folder and recipe, worked on by one process after another."""

    nursery: Nursery
    recipe: dict[str, Any]
    root: Path
    children: int = 0
    run: RunDirectory = field(init=False)

    def __post_init__(self) -> None:
        self.root.mkdir(exist_ok=True)
        self.file = self.root / "recipe.yaml"
        self.file.write_text(dump_yaml(self.recipe), encoding="utf-8")
        self.run = RunDirectory(self.root / "run")

    def start(self, *mishaps: list[Any], words: tuple[str, ...] = ("--resume",)) -> Child:
        self.children += 1
        if words == ("--resume",) and not self.run.root.exists():
            words = ()
        log = self.root / f"log-{self.children}"
        command = ["train", str(self.file), "--out", str(self.run.root), *words]
        return Child(self.nursery, self.nursery.ask(start=command, mishaps=mishaps, log=str(log))["pid"], log)

    def finish(self, *mishaps: list[Any], words: tuple[str, ...] = ("--resume",)) -> str:
        """Trains to the end; gives what was said."""
        child = self.start(*mishaps, words=words)
        code = child.wait()
        assert code == 0, child.said
        return child.said

    def sums(self) -> dict[str, str]:
        return checkpoint_checksums(self.run, self.run.steps()[-1])

    def until(self, reached: Callable[[], Any], seconds: float = 300.0) -> None:
        """Waits for something another process does."""
        end = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.005)

    def check_every_listed_checkpoint(self) -> None:
        for step in self.run.steps():
            verify_checkpoint(self.run.checkpoint(step))


@pytest.fixture
def fault_recipe(tiny: dict[str, Any]) -> dict[str, Any]:
    """Long enough to be killed anywhere: 30 steps over two and a half epochs, dropout, pieces, evaluations, checkpoints."""
    tiny["model"]["dropout"] = 0.2
    tiny["training"].update(steps=30, batch_size=16, accumulate=2)
    tiny["evaluation"]["every"] = 7
    tiny["checkpoint"]["every"] = 3
    return tiny


@pytest.fixture
def new_fault(nursery: Nursery, fault_recipe: dict[str, Any], tmp_path: Path) -> Callable[..., Fault]:
    """``new_fault("name")``: a folder of its own, for this recipe or another."""

    def make(name: str = "fault", recipe: dict[str, Any] | None = None) -> Fault:
        return Fault(nursery, recipe or fault_recipe, tmp_path / name)

    return make


@pytest.fixture
def fault(new_fault: Callable[..., Fault]) -> Fault:
    return new_fault()


@pytest.fixture(scope="session")
def unbroken(nursery: Nursery, tiny_text: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The sums of the unbroken run of ``fault_recipe``, and how long it took; the same for all tests."""
    return {}


@pytest.fixture
def whole(unbroken: dict[str, Any], nursery: Nursery, fault_recipe: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    if not unbroken:
        fault = Fault(nursery, fault_recipe, tmp_path / "whole")
        fault.finish()  # the first child also prepares the data
        again = Fault(nursery, fault_recipe, tmp_path / "again")
        begun = time.monotonic()
        again.finish()
        unbroken.update(seconds=time.monotonic() - begun, sums=fault.sums())
        assert again.sums() == fault.sums()
    return unbroken
