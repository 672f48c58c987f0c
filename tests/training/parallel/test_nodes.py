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
from typing import Any

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
        self.power = subprocess.Popen([*ALONE, "sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 10
        file = Path(f"/proc/{self.power.pid}/task/{self.power.pid}/children")
        while not file.read_text(encoding="utf-8").split():
            assert time.monotonic() < until
            time.sleep(0.01)
        self.first = file.read_text(encoding="utf-8").split()[0]

    def run(self, *words: str) -> None:
        subprocess.run(self.inside(*words), check=True)

    def inside(self, *words: str) -> list[str]:
        return ["nsenter", "-t", self.first, "--net", "--mount", "--pid", "--wdns=/", *words]

    def torchrun(self, work: Path, *words: str) -> subprocess.Popen[str]:
        """Two processes of a run on four; both machines agree on the first one's address."""
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
        launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "10.99.36.1:29400", "--rdzv-id", "glassformer"]
        # A namespace has no name of its own by which torchrun would know that the endpoint is here.
        launcher += ["--rdzv-conf", f"is_host={int(self.number == 0)}", "--local-addr", self.address, "-m", "glassformer", *words]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": self.cable,
            "GLASSFORMER_PROCESS_TIMEOUT": "60",
        }
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(self.inside(*launcher), env=environment, **pipes)

    def off(self) -> None:
        """Pulls the plug: every process of the machine is killed at once."""
        os.kill(int(self.first), signal.SIGKILL)
        self.power.wait(30)


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
