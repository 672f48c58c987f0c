"""Processes started from the page: ordinary ``glassformer`` commands that outlive the server and are found again. No torch.

Each has a record and a log in a hidden folder of the served folder. A process is identified by pid and start time, so that
another process with a recycled pid is never stopped. As many run at once as the machine has room for (``room``): one a core
and one a GPU at most, each with 2 GiB of memory; the others wait in their turn, also for the next server if this one ends.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from glassformer.foundation.errors import RunError
from glassformer.foundation.files import SERVED, open_file, read_json, refuse_links, write_json
from glassformer.foundation.locks import locked
from glassformer.foundation.machine import cores, gpus, memory_bytes
from glassformer.runs.directory import RunDirectory

LOG_TAIL = 4000
"""Characters of a log that the page shows."""
TURNS = 0.5
"""Seconds between looks for a free place."""
MOST_BYTES = 1 << 20
"""Bytes of a record."""
PROCESS_BYTES = 2 << 30
"""Memory that a small run takes: torch, its texts and its model."""


def room(cores: int, memory: int, gpus: int) -> int:
    """How many runs go on at once: limited by cores, by memory, and by GPUs where there are any; one at least."""
    return max(1, min(cores, memory // PROCESS_BYTES, gpus or cores))


@final
class Processes:
    """What was started in one folder."""

    def __init__(self, root: Path, places: int | None = None) -> None:
        self.root, self.records, self.gpus = root, root / ".page", gpus()
        self.places = places or room(cores(), memory_bytes(), len(self.gpus))
        self._turns: threading.Thread | None = None

    def start(self, name: str, kind: str, words: list[str]) -> dict[str, Any]:
        """Starts ``glassformer WORDS`` in its own session, or puts it in the queue. At most one process per name."""
        self.records.mkdir(parents=True, exist_ok=True)
        with locked(self.records / ".lock", wait=True):
            everyone = self.list()
            if any(one["name"] == name and one["alive"] for one in everyone):
                raise RunError(f"{name} is already in use; wait for it, or stop it.", reason="already-started")
            record = {"schema": 1, "name": name, "kind": kind, "command": ["glassformer", *words], "pid": None, "began": None}
            if sum(one["pid"] is not None and one["alive"] for one in everyone) < self.places:
                return self._launch(record)
            record["turn"] = 1 + max((one["turn"] or 0 for one in everyone), default=0)
            write_json(self._record(name), record)
        self.take_turns()
        return self._shown(record)

    def take_turns(self) -> None:
        """Starts in the background whatever waits, whenever a place becomes free."""
        if (self._turns is None or not self._turns.is_alive()) and self._waiting():
            self._turns = threading.Thread(target=self._start_waiting, daemon=True)
            self._turns.start()

    def _waiting(self) -> list[dict[str, Any]]:
        return sorted((one for one in self.list() if one["turn"] is not None), key=lambda one: int(one["turn"]))

    def _start_waiting(self) -> None:
        while self._waiting():
            with suppress(RunError, OSError), locked(self.records / ".lock", wait=True):
                free = self.places - sum(one["pid"] is not None and one["alive"] for one in self.list())
                for one in self._waiting()[: max(0, free)]:
                    self._launch({"schema": 1, "name": one["name"], "kind": one["kind"], "command": one["command"]})
            time.sleep(TURNS)

    def _launch(self, record: dict[str, Any]) -> dict[str, Any]:
        name, gpu = record["name"], self._free_gpu() if record["kind"] == "run" else None  # a study shares out all GPUs itself
        refuse_links(self._record(name))  # before the process starts, which nobody would find again without its record
        with open_file(self._log(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "glassformer", *record["command"][1:]],
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", SERVED: str(self.root)}
                | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}),
            )
        record = {**record, "pid": process.pid, "began": began(process.pid), "gpu": gpu}
        write_json(self._record(name), record)
        threading.Thread(target=process.wait, daemon=True).start()  # reap zombies
        return self._shown(record)

    def _free_gpu(self) -> str | None:
        """The GPU that fewest of the runs going on have; None where there is none."""
        taken = [one["gpu"] for one in self.list() if one["alive"] and one["pid"] is not None]
        return min(self.gpus, key=taken.count, default=None)

    def list(self) -> list[dict[str, Any]]:
        """All processes started here, with their status."""
        found = []
        for file in sorted(self.records.glob("*.json")) if self.records.is_dir() else []:
            try:
                found.append(self._shown(read_json(file, most=MOST_BYTES)))
            except (RunError, KeyError, TypeError, ValueError):
                continue
        return found

    def find(self, name: str) -> dict[str, Any] | None:
        return next((one for one in self.list() if one["name"] == name), None)

    def stop(self, name: str) -> None:
        """Requests a stop after the current step, like Ctrl-C or SIGTERM on the command line."""
        record = self.find(name)
        if record is None or not record["alive"]:
            raise RunError(f"{name} is not running.", reason="not-running")
        if record["pid"] is None:
            self._record(name).unlink(missing_ok=True)
            return
        os.kill(record["pid"], signal.SIGTERM)

    def wait(self, name: str, seconds: float = 60.0) -> None:
        """Waits briefly for a process that is ending."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and (self.find(name) or {}).get("alive"):
            time.sleep(0.05)

    def _shown(self, record: dict[str, Any]) -> dict[str, Any]:
        """What the page is told; ``turn``: its place in the queue, of one that waits."""
        turn = None if record.get("turn") is None else int(record["turn"])
        pid = None if turn is not None else int(record["pid"])
        alive = pid is None or (record.get("began") is not None and began(pid) == record["began"])
        said = _tail(self._log(str(record["name"]))) if pid is not None else f"Waiting for one of {self.places} places."
        return {
            "name": str(record["name"]),
            "kind": str(record["kind"]),
            "pid": pid,
            "turn": turn,
            "gpu": record.get("gpu"),
            "alive": alive,
            "state": "waiting" if pid is None else "running" if alive else "ended",
            "command": [str(word) for word in record["command"]],
            "said": said,
        }

    def _record(self, name: str) -> Path:
        return self.records / f"{name.replace('/', '~')}.json"

    def _log(self, name: str) -> Path:
        return self.records / f"{name.replace('/', '~')}.log"


def stop_run(run: RunDirectory) -> None:
    """Signals the process that holds a run's lock to stop after its step; never any other process."""
    if not run.in_use():
        raise RunError("Its process is gone; there is nothing to stop.", reason="process-gone")
    pid, node = run.holder()
    if node != platform.node():
        raise RunError(f"It is being trained on {node or 'another machine'}; stop it there.", reason="on-another-machine")
    if pid is None or not _is_ours(pid):  # for example a notebook, which the signal would kill
        raise RunError(
            f"It is being trained by process {pid}, which is not a `glassformer` command; stop it there.",
            reason="not-our-process",
        )
    os.kill(pid, signal.SIGTERM)


def began(pid: int) -> str | None:
    """The start time of a running process; None if it is dead or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else _ps(pid, "lstart=,stat=")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def _is_ours(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        words = b"" if Path("/proc/self").exists() else (_ps(pid, "command=") or "").encode()
    except OSError:
        return False
    return b"glassformer" in words and began(pid) is not None


def _ps(pid: int, what: str) -> str | None:
    """Process information from ``ps``, where there is no /proc."""
    done = subprocess.run(["ps", "-o", what, "-p", str(pid)], capture_output=True, text=True, check=False)
    text = done.stdout.strip()
    return None if done.returncode or not text or text.split()[-1].startswith("Z") else text


def _tail(file: Path) -> str:
    try:
        with open_file(file) as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - LOG_TAIL))
            return stream.read().decode("utf-8", errors="replace")
    except (OSError, RunError):
        return ""
