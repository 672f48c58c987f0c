"""Processes started from the page: ordinary ``glassformer`` commands that outlive the server and are found again. No torch.

Each has a record and a log in a hidden folder of the served folder. A process is identified by pid and start time, so that
another process with a recycled pid is never stopped.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, final

from glassformer.foundation.errors import RunError
from glassformer.foundation.files import SERVED, open_file, read_json, refuse_links, write_json
from glassformer.runs.directory import RunDirectory

LOG_TAIL = 4000
"""Characters of a log that the page shows."""
MOST_BYTES = 1 << 20
"""Bytes of a record."""


@final
class Processes:
    """What was started in one folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.records = root, root / ".page"

    def start(self, name: str, kind: str, words: list[str]) -> dict[str, Any]:
        """Starts ``glassformer WORDS`` in its own session. At most one process per name."""
        before = self.find(name)
        if before is not None and before["alive"]:
            raise RunError(f"{name} is being worked on already; wait for it, or stop it.")
        self.records.mkdir(parents=True, exist_ok=True)
        log = self._log(name)
        refuse_links(self._record(name))  # before the process starts, which nobody would find again without its record
        command = [sys.executable, "-m", "glassformer", *words]
        with open_file(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as stream:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", SERVED: str(self.root)},
            )
        record = {
            "schema": 1,
            "name": name,
            "kind": kind,
            "pid": process.pid,
            "began": began(process.pid),
            "command": ["glassformer", *words],
        }
        write_json(self._record(name), record)
        threading.Thread(target=process.wait, daemon=True).start()  # reap zombies
        return self._shown(record)

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
        os.kill(record["pid"], signal.SIGTERM)

    def wait(self, name: str, seconds: float = 60.0) -> None:
        """Waits briefly for a process that is ending."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and (self.find(name) or {}).get("alive"):
            time.sleep(0.05)

    def _shown(self, record: dict[str, Any]) -> dict[str, Any]:
        pid = int(record["pid"])
        alive = record.get("began") is not None and began(pid) == record["began"]
        return {
            "name": str(record["name"]),
            "kind": str(record["kind"]),
            "pid": pid,
            "alive": alive,
            "command": [str(word) for word in record["command"]],
            "said": _tail(self._log(str(record["name"]))),
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
            f"It is being trained by process {pid}, which is no `glassformer` command; stop it there.", reason="not-our-process"
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
