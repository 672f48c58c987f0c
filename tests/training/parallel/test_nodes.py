"""One run on two machines: network namespaces with a cable between them, folders and process tables of their own."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.runs.checkpoint import checkpoint_checksums
from glassformer.runs.directory import RunDirectory

ALONE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
CABLES = ("gf-left", "gf-right")
STEPS = 8


def why_not() -> str | None:
    """Why machines cannot be made here; None: they can."""
    if missing := [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]:
        return f"{missing[0]} is not installed"
    done = subprocess.run([*ALONE, "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip() or "no namespaces" if done.returncode else None


class Machine:
    """Processes that see a network of their own, one end of the cable."""

    def __init__(self, number: int) -> None:
        self.number, self.cable, self.address = number, CABLES[number], f"10.99.36.{number + 1}"
        self.started: list[subprocess.Popen[bytes]] = []
        self.power = subprocess.Popen(
            [*ALONE, "sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 10
        file = Path(f"/proc/{self.power.pid}/task/{self.power.pid}/children")
        while not file.read_text(encoding="utf-8").split():
            assert time.monotonic() < until
            time.sleep(0.01)
        self.first = file.read_text(encoding="utf-8").split()[0]
        self.network = os.open(f"/proc/{self.first}/ns/net", os.O_RDONLY)  # a machine that is off leaves the cable plugged in

    def run(self, *words: str) -> None:
        subprocess.run(self.inside(*words), check=True)

    def inside(self, *words: str) -> list[str]:
        return ["nsenter", "-t", self.first, "--net", "--mount", "--pid", "--wdns=/", *words]

    def torchrun(self, said: Path, each: int, *words: str) -> subprocess.Popen[bytes]:
        """``each`` processes of a run on two machines, as docs/scale.md starts them; the first machine is the meeting point.
        ``said``: the file for what they print."""
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", str(each)]
        launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "10.99.36.1:29400", "--rdzv-id", "glassformer"]
        # A namespace has no name of its own by which torchrun would know that the endpoint is here.
        launcher += ["--rdzv-conf", f"is_host={int(self.number == 0)}", "--local-addr", self.address]
        limits = {"GLASSFORMER_PROCESS_TIMEOUT": "60", "GLASSFORMER_PROCESS_PATIENCE": "5"}
        environment = {**os.environ, **limits, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": self.cable}
        command = self.inside(*launcher, "-m", "glassformer", "train", *words, "--quiet")
        with said.open("wb") as file:
            self.started.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file))
        return self.started[-1]

    def off(self) -> None:
        """Pulls the plug: every process of the machine is killed at once."""
        os.kill(int(self.first), signal.SIGKILL)
        for one in (self.power, *self.started):
            one.wait(30)


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    if reason := why_not():
        pytest.skip(f"network namespaces cannot be made: {reason}")
    made = [Machine(0), Machine(1)]
    ends = [word for one in made for word in ("name", one.cable, "netns", one.first)]
    subprocess.run(["ip", "link", "add", *ends[:4], "type", "veth", "peer", *ends[4:]], check=True)
    for one in made:
        one.run("ip", "address", "add", f"{one.address}/24", "dev", one.cable)
        one.run("ip", "link", "set", one.cable, "up")
        one.run("ip", "link", "set", "lo", "up")
    try:
        yield made
    finally:
        for one in made:
            if one.power.poll() is None:
                one.off()
            os.close(one.network)


@pytest.fixture
def recipe(tmp_path) -> Path:
    chance = random.Random(0)
    lines = ["".join(chance.choices("abcdefgh ", k=40)) for _ in range(120)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "shared").mkdir()
    settings = {
        "data": {"path": str(tmp_path / "text.txt"), "document": "line"},
        "tokenizer": {"kind": "char"},
        "model": {"width": 12, "layers": 2, "heads": 3, "context": 10, "dropout": 0.1},
        "training": {"steps": STEPS, "batch_size": 16, "accumulate": 2, "lr": 0.003, "pieces": 4, "optimizer": "muon"},
        "evaluation": {"every": 4, "batch_size": 3},
        "checkpoint": {"every": 5},
    }
    file = tmp_path / "recipe.yaml"
    file.write_text(json.dumps(settings), encoding="utf-8")
    return file


class Run:
    """One run on both machines."""

    def __init__(self, machines: list[Machine], place: Path, each: int, *words: str) -> None:
        self.folder = RunDirectory(place / "shared" / "run")
        self.files = [place / f"said-{number}.txt" for number in range(2)]
        words = (str(place / "recipe.yaml"), "--out", str(self.folder.root), *words)
        self.launchers = [one.torchrun(file, each, *words) for one, file in zip(machines, self.files)]

    @property
    def said(self) -> list[str]:
        return [file.read_text(encoding="utf-8") for file in self.files]

    def codes(self) -> list[int]:
        return [one.wait(200) for one in self.launchers]

    def reaches(self, step: int) -> None:
        file = self.folder.metrics_file
        wait_until(lambda: file.exists() and file.read_text(encoding="utf-8").count("\n") >= step, 200)


def wait_until(there: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_two_machines_give_the_bits_of_one_process(machines, recipe, tmp_path) -> None:
    run = Run(machines, tmp_path, 2)
    assert run.codes() == [0, 0]
    assert [said.count("Run: ") for said in run.said] == [1, 0]
    alone = gf.train(str(recipe), out=tmp_path / "alone", threads=1)
    assert checkpoint_checksums(run.folder, STEPS) == checkpoint_checksums(RunDirectory(alone.folder), STEPS)
    (shared,) = run.folder.read_environment()["processes"]
    assert (shared["processes"], shared["nodes"]) == (4, 2)


@pytest.mark.slow
def test_a_folder_that_a_machine_does_not_see_is_refused(machines, recipe, tmp_path) -> None:
    """That machine says so, and the one that made the folder ends with it; no run is left behind."""
    plugin = tmp_path / "impatient.py"
    plugin.write_text("import glassformer.experiment\nglassformer.experiment.FOLDER_APPEARS = 1.0\n", encoding="utf-8")
    machines[1].run("mount", "-t", "tmpfs", "none", str(tmp_path / "shared"))
    run = Run(machines, tmp_path, 1, "--plugin", str(plugin))
    assert run.codes() == [1, 1]
    assert [said.count("\nError: ") for said in run.said] == [0, 1]
    assert f"Error: {run.folder.root} is not seen on" in run.said[1]
    assert not run.folder.root.exists()


LONG = ("--set", "training.steps=5000", "--set", "checkpoint.every=20", "--set", "evaluation.every=5000")


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_a_machine_that_is_switched_off_ends_the_other(machines, recipe, tmp_path, number: int) -> None:
    """In seconds; machine 0 holds the store through which the processes speak."""
    run = Run(machines, tmp_path, 1, *LONG)
    run.reaches(25)
    machines[number].off()
    assert run.launchers[1 - number].wait(20) == 1
    assert run.said[1 - number].count("\nError: Process ") == 1
    assert run.folder.steps()[-1] >= 20


@pytest.mark.slow
def test_a_cable_that_is_pulled_ends_both(machines, recipe, tmp_path) -> None:
    """Nobody is told that the other machine is gone: each finds out. (torchrun itself, on machine 1, waits on.)"""
    run = Run(machines, tmp_path, 1, *LONG)
    run.reaches(25)
    machines[1].run("ip", "link", "set", machines[1].cable, "down")
    assert run.launchers[0].wait(40) == 1
    assert "Process 1 of 2 gave no sign of life" in run.said[0]
    wait_until(lambda: "no contact with the machine of process 0" in run.said[1], 40)
