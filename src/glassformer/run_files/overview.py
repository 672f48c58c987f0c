"""The runs of a folder side by side: how each stands, and the settings in which they differ. Imports no torch.

Reads the end of a metrics file, never the whole: a folder of many long runs opens at once.
"""

from __future__ import annotations

import math
import os
from html import escape
from pathlib import Path
from typing import Any, final

from glassformer.foundation.config import flatten
from glassformer.foundation.errors import RunError
from glassformer.foundation.metrics import LOSS, Metric
from glassformer.run_files.directory import RunDirectory, find_runs
from glassformer.run_files.records import MetricsLog

NOT_SETTINGS = ("about", "result")
TAIL = 1 << 20
"""Bytes at the end of a metrics file in which a list looks for the last validation."""


def overview(folder: Path) -> dict[str, Any]:
    """``{"runs": [...], "differing": [...]}``, plain values."""
    return RunTable(folder).plain()


def flat_rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The overview as rows of plain cells, for a spreadsheet."""
    rows = []
    for row in table["runs"]:
        cells = {key: value for key, value in row.items() if key not in ("settings", "notes")}
        rows.append({**cells, **row["settings"], "notes": "; ".join(row["notes"])})
    return rows


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Every record of every run in a folder, each with its run's name."""
    return [
        {"run": _name(run, folder), **record} for run in find_runs(folder) for record in MetricsLog(run.metrics_file).read()
    ]


def _name(run: RunDirectory, folder: Path) -> str:
    return str(run.root.relative_to(folder)) if run.root != folder else run.root.resolve().name


@final
class RunTable:
    """The table of a folder, to be asked for again and again: what has not changed on disk is not read again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[tuple[Path, str], tuple[tuple[Any, ...], Any]] = {}

    def plain(self) -> dict[str, Any]:
        """One row per run, and the keys in which the readable ones differ."""
        runs = [self.row(run) for run in find_runs(self.folder)]
        readable = [row for row in runs if row["status"] != "damaged"]
        keys = dict.fromkeys(key for row in readable for key in row["settings"])
        differing = [key for key in keys if len({repr(row["settings"].get(key)) for row in readable}) > 1]
        for row in runs:
            row["settings"] = {key: row["settings"].get(key) for key in differing}
        return {"runs": runs, "differing": differing}

    def row(self, run: RunDirectory) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        metric, value, facts = LOSS, None, dict[str, Any]()
        try:
            settings = self._once(run, "recipe", (run.recipe_file,), lambda: _settings(run))
            facts = self._once(run, "environment", (run.environment_file,), lambda: _facts(run))
            progress = progress_of(run, self._once(run, "state", (run.state_file,), run.read_state))
            metric = facts["metric"]
            recorded = metric.recorded
            log = MetricsLog(run.metrics_file)
            value = self._once(run, recorded, (run.metrics_file,), lambda: log.last(recorded, most=TAIL))
        except (RunError, OSError, TypeError, ValueError, KeyError, AttributeError):  # a damaged run does not hide the others
            progress = {"status": "damaged"}
        finite = isinstance(value, int | float) and math.isfinite(value)
        return {
            "name": _name(run, self.folder),
            "folder": str(run.root),
            "status": progress["status"],
            "step": progress.get("step"),
            "steps": progress.get("steps"),
            "metric": metric.name,
            metric.recorded: value if finite else None,
            "notes": run.notes(),
            "tainted": facts.get("tainted", False),
            "ancestry": facts.get("ancestry", []),
            "settings": settings,
        }

    def _once(self, run: RunDirectory, what: str, files: tuple[Path, ...], read: Any) -> Any:
        """What ``read`` gives, read again only when a file has changed."""
        now = tuple(_signature(file) for file in files)
        known = self._known.get((run.root, what))
        if known is None or known[0] != now:
            known = now, read()
            self._known[run.root, what] = known
        value = known[1]
        return dict(value) if isinstance(value, dict) else value


def _signature(file: Path) -> Any:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _settings(run: RunDirectory) -> dict[str, Any]:
    return {key: value for key, value in flatten(run.read_recipe()).items() if key not in NOT_SETTINGS}


def _facts(run: RunDirectory) -> dict[str, Any]:
    known = run.read_environment() if run.environment_file.is_file() else {}
    ancestors = [str(one.get("run", "")) for one in known.get("ancestry", []) if isinstance(one, dict)]
    return {"metric": metric_of(run), "tainted": known.get("tainted") is not None, "ancestry": ancestors}


def progress_of(run: RunDirectory, state: dict[str, Any] | None = None) -> dict[str, Any]:
    """The run's state; one that says "running" while its process is gone was killed."""
    state = run.read_state() if state is None else state
    if state["status"] == "running":
        saved = run.steps()
        state["step"] = saved[-1] if saved else 0
        if not _alive(state.get("pid")):
            state["status"] = "killed"
    return state


def summary_of(run: RunDirectory) -> dict[str, Any]:
    """One run in a few plain figures."""
    progress, metric = progress_of(run), metric_of(run)
    evaluations = [record for record in MetricsLog(run.metrics_file).read() if "seconds" in record]
    return {
        "run": str(run.root),
        "status": progress["status"],
        "step": progress.get("step"),
        "steps": progress.get("steps"),
        "metric": metric.name,
        metric.recorded: last_validation(run, metric.recorded),
        "seconds": evaluations[-1]["seconds"] if evaluations else None,
        "tainted": run.read_environment().get("tainted") is not None,
    }


def in_html(summary: dict[str, Any]) -> str:
    """A small table for a notebook."""
    rows = "".join(f"<tr><th>{escape(key)}</th><td>{escape(str(value))}</td></tr>" for key, value in summary.items())
    return f"<table>{rows}</table>"


def in_one_line(summary: dict[str, Any]) -> str:
    """``Run('runs/a', finished at step 6, validation loss 2.1034)``."""
    value = summary[f"validation_{summary['metric']}"]
    figure = "" if value is None else f", validation {summary['metric']} {value:.4f}"
    return f"Run({summary['run']!r}, {summary['status']} at step {summary['step']}{figure})"


def metric_of(run: RunDirectory) -> Metric:
    """The metric that chooses the run's best checkpoint; runs of versions that knew no other have the loss."""
    known = run.read_environment().get("metric") if run.environment_file.is_file() else None
    return LOSS if known is None else Metric.from_plain(known)


def last_validation(run: RunDirectory, key: str) -> float | None:
    """The last recorded value of a validation figure."""
    value = MetricsLog(run.metrics_file).last(key)
    return None if value is None else float(value)


def _alive(pid: int | None) -> bool:
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
