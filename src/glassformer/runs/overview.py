"""The runs of a folder side by side: how each stands, and the settings in which they differ. Imports no torch."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from glassformer.foundation.config import flatten
from glassformer.foundation.errors import RunError
from glassformer.foundation.metrics import LOSS, Metric
from glassformer.runs.directory import RunDirectory, find_runs
from glassformer.runs.records import MetricsLog

NOT_SETTINGS = ("about", "result")


def overview(folder: Path) -> dict[str, Any]:
    """``{"runs": [...], "differing": [...]}``, plain values."""
    runs = [_row(run, folder) for run in find_runs(folder)]
    readable = [row for row in runs if row["status"] != "damaged"]
    keys = dict.fromkeys(key for row in readable for key in row["settings"])
    differing = [key for key in keys if len({repr(row["settings"].get(key)) for row in readable}) > 1]
    for row in runs:
        row["settings"] = {key: row["settings"].get(key) for key in differing}
    return {"runs": runs, "differing": differing}


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


def _row(run: RunDirectory, folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    metric, value = LOSS, None
    try:
        settings = {key: value for key, value in flatten(run.read_recipe()).items() if key not in NOT_SETTINGS}
        standing = standing_of(run)
        metric = metric_of(run)
        value = last_validation(run, metric.recorded)
    except RunError:  # one damaged run does not hide the others
        standing = {"status": "damaged"}
    return {
        "name": _name(run, folder),
        "folder": str(run.root),
        "status": standing["status"],
        "step": standing.get("step"),
        "metric": metric.name,
        metric.recorded: value if value is not None and math.isfinite(value) else None,
        "notes": run.notes(),
        "tainted": run.environment_file.is_file() and run.read_environment().get("tainted") is not None,
        "settings": settings,
    }


def standing_of(run: RunDirectory) -> dict[str, Any]:
    """The run's state; one that says "running" while its process is gone was killed."""
    state = run.read_state()
    if state["status"] == "running":
        saved = run.steps()
        state["step"] = saved[-1] if saved else 0
        if not _alive(state.get("pid")):
            state["status"] = "killed"
    return state


def summary_of(run: RunDirectory) -> dict[str, Any]:
    """One run in a few plain figures."""
    standing, metric = standing_of(run), metric_of(run)
    evaluations = [record for record in MetricsLog(run.metrics_file).read() if "seconds" in record]
    return {
        "run": str(run.root),
        "status": standing["status"],
        "step": standing.get("step"),
        "steps": standing.get("steps"),
        "metric": metric.name,
        metric.recorded: last_validation(run, metric.recorded),
        "seconds": evaluations[-1]["seconds"] if evaluations else None,
        "tainted": run.read_environment().get("tainted") is not None,
    }


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
    values = [record[key] for record in MetricsLog(run.metrics_file).read() if key in record]
    return float(values[-1]) if values else None


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
