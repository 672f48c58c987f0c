"""The runs of a folder in a table: status, last figures, and the settings in which they differ. Imports no torch.

Only the end of each metrics file is read, and a few places for a small curve, so that a folder of many long runs opens quickly.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, final

from glassformer.foundation.config import flatten
from glassformer.foundation.errors import RunError
from glassformer.foundation.metrics import LOSS, TRAIN, Metric
from glassformer.foundation.progress import duration
from glassformer.runs.directory import RunDirectory, find_runs
from glassformer.runs.records import MetricsLog

NOT_SETTINGS = ("about", "result")
CURVE_POINTS = 24
"""Training losses in a row's small curve."""
TAIL = 1 << 20
"""Bytes at the end of a metrics file that are searched for the last validation."""


def overview(folder: Path) -> dict[str, Any]:
    """``{"runs": [...], "differing": [...]}``, plain values."""
    return RunTable(folder).to_dict()


def flat_rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The overview as rows of plain cells, for a spreadsheet."""
    rows = []
    for row in table["runs"]:
        cells = {key: value for key, value in row.items() if key not in ("settings", "notes", "curve", "baseline")}
        beside = row["baseline"] or {"name": None, "value": None}
        cells |= {"best_baseline": beside["name"], "best_baseline_value": beside["value"]}
        rows.append({**cells, **row["settings"], "notes": "; ".join(row["notes"])})
    return rows


def records_of(folder: Path, damaged: Callable[[str], None] | None = None) -> list[dict[str, Any]]:
    """Every record of every run in a folder, each with its run's name. Damaged lines are named to ``damaged``, or raise."""
    return [
        {"run": _name(run, folder), **record}
        for run in find_runs(folder)
        for record in MetricsLog(run.metrics_file).read(damaged)
    ]


def _changed(run: RunDirectory) -> float:
    """When the run last said how far it is, in seconds since 1970; 0 where it never did."""
    try:
        return run.state_file.stat().st_mtime
    except OSError:
        return 0.0


def _name(run: RunDirectory, folder: Path) -> str:
    return str(run.root.relative_to(folder)) if run.root != folder else run.root.resolve().name


@final
class RunTable:
    """The table of a folder, cached for repeated calls: only files that changed are read again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[tuple[Path, str], tuple[Any, Any]] = {}

    def to_dict(self) -> dict[str, Any]:
        """One row per run, and the keys in which the readable ones differ."""
        found = [self._row(run) for run in find_runs(self.folder)]
        differing, settings = _differences([recipe for _, recipe in found])
        return {"runs": [{**row, "settings": values} for (row, _), values in zip(found, settings)], "differing": differing}

    def row(self, run: RunDirectory) -> dict[str, Any]:
        """The row of one run."""
        return self._row(run)[0]

    def _row(self, run: RunDirectory) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """The row and the recipe; the recipe is None if the run cannot be read."""
        recipe: dict[str, Any] | None = None
        metric, value, facts, notes = LOSS, None, dict[str, Any](), list[str]()
        curve: list[float] = []
        try:
            recipe = self._once(run, run.recipe_file, run.read_recipe)
            facts = self._once(run, run.environment_file, lambda: _facts(run))
            progress = progress_of(run, dict(self._once(run, run.state_file, run.read_state)))
            notes = self._once(run, run.notes_file, run.notes)
            metric = facts["metric"]
            log = MetricsLog(run.metrics_file)
            value, curve = self._once(
                run, log.file, lambda: (log.last(metric.recorded, most=TAIL), log.sampled("loss", CURVE_POINTS))
            )
        except (RunError, OSError, TypeError, ValueError, KeyError, AttributeError):  # a damaged run does not hide the others
            progress, recipe = {"status": "damaged"}, None
        finite = isinstance(value, int | float) and math.isfinite(value)
        can = {} if recipe is None else abilities_of(recipe)
        row = {
            "name": _name(run, self.folder),
            "folder": str(run.root),
            "status": progress["status"],
            "step": progress.get("step"),
            "steps": progress.get("steps"),
            "metric": metric.name,
            metric.recorded: value if finite else None,
            "baseline": best_baseline(progress.get("baselines"), metric),
            "data": None if recipe is None else data_name(recipe),
            "curve": list(curve),
            "changed": _changed(run),
            "objective": can.get("objective"),
            **{what: bool(can.get(what)) for what in ("generates", "answers", "abstains", "translates")},
            "notes": list(notes),
            "tainted": facts.get("tainted", False),
            "ancestry": list(facts.get("ancestry", [])),
        }
        return row, recipe

    def _once(self, run: RunDirectory, file: Path, read: Callable[[], Any]) -> Any:
        """The cached result of ``read`` for a file, until the file changes. Callers must not modify it."""
        now = file_signature(file)
        known = self._known.get((run.root, file.name))
        if known is None or known[0] != now:
            known = now, read()
            self._known[run.root, file.name] = known
        return known[1]


def _differences(recipes: list[dict[str, Any] | None]) -> tuple[list[str], list[dict[str, Any]]]:
    """The keys that differ, and their values in each recipe."""
    flat = [
        {} if recipe is None else flatten({key: value for key, value in recipe.items() if key not in NOT_SETTINGS})
        for recipe in recipes
    ]
    readable = [values for values, recipe in zip(flat, recipes) if recipe is not None]
    keys = dict.fromkeys(key for values in readable for key in values)
    differing = [key for key in keys if len({repr(values.get(key)) for values in readable}) > 1]
    return differing, [{key: values.get(key) for key in differing} for values in flat]


def best_baseline(values: Any, metric: Metric) -> dict[str, Any] | None:
    """``{"name", "value"}`` of the best of a run's baselines on its validation data, by the judged metric."""
    known = (
        {name: value for name, value in values.items() if isinstance(value, int | float)} if isinstance(values, dict) else {}
    )
    if not known:
        return None
    name = (min if metric.lower_is_better else max)(known, key=lambda one: known[one])
    return {"name": name, "value": known[name]}


def data_name(recipe: dict[str, Any]) -> str | None:
    """What a run was trained on, in a word: the name of a set, or of a file."""
    data = recipe.get("data")
    chosen = (data.get("set") or data.get("path")) if isinstance(data, dict) else None
    if isinstance(chosen, dict):
        return str(chosen.get("kind"))
    first = chosen[0] if isinstance(chosen, list) and chosen else chosen
    return None if first is None else Path(str(first)).name


OF_TEXTS = ("labels", "multilabel", "regression")
"""Objectives about whole texts."""


def abilities_of(recipe: dict[str, Any]) -> dict[str, Any]:
    """What a recipe's model can be asked for (text, answers or labels), and its sizes."""
    objective, model = recipe.get("objective", "next-token"), recipe.get("model") or {}
    kind = str(objective.get("kind") if isinstance(objective, dict) else objective)
    sizes = {name: model.get(name) for name in ("layers", "heads", "context")}
    answers = "answers" in str(objective) or kind in OF_TEXTS
    return {
        "objective": kind,
        "says": "What it answers" if answers else "What it writes",
        "generates": bool(model.get("causal", True)) and kind not in (*OF_TEXTS, "retrieval", "translate"),
        "answers": answers,
        "abstains": "answers" in str(objective) or kind == "labels",
        "translates": kind == "translate",
        **sizes,
    }


def file_signature(file: Path) -> Any:
    """Another value once the file was changed; None without a file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _facts(run: RunDirectory) -> dict[str, Any]:
    known = run.read_environment() if run.environment_file.is_file() else {}
    ancestors = [str(one.get("run", "")) for one in known.get("ancestry", []) if isinstance(one, dict)]
    return {"metric": _metric(known), "tainted": known.get("tainted") is not None, "ancestry": ancestors}


def progress_of(run: RunDirectory, state: dict[str, Any] | None = None) -> dict[str, Any]:
    """The run's status; "running" without a process holding the lock means it was killed."""
    state = run.read_state() if state is None else state
    if state["status"] == "running":
        saved = run.steps()
        state["step"] = saved[-1] if saved else 0
        if not run.in_use():
            state["status"] = "killed"
    return state


def summary_of(run: RunDirectory) -> dict[str, Any]:
    """A run's key figures as plain values."""
    progress, metric = progress_of(run), metric_of(run)
    return {
        "run": str(run.root),
        "status": progress["status"],
        "step": progress.get("step"),
        "steps": progress.get("steps"),
        "metric": metric.name,
        metric.recorded: last_validation(run, metric.recorded),
        "seconds": MetricsLog(run.metrics_file).last("seconds"),
        "tainted": run.read_environment().get("tainted") is not None,
    }


def in_html(run: RunDirectory, findings: Sequence[object] = ()) -> str:
    """A run for a notebook: where it stands, its metric beside the best baseline, what is wrong, its curves."""
    from glassformer.figures.curves import Curve, Points, learning_curves
    from glassformer.figures.save import inline_svg

    summary, progress, metric = summary_of(run), progress_of(run), metric_of(run)
    value, beside = summary[metric.recorded], best_baseline(progress.get("baselines"), metric)
    rows = {
        "run": summary["run"],
        "status": f"{summary['status']} at step {summary['step']:,} of {summary['steps']:,}"
        if isinstance(summary["step"], int) and isinstance(summary["steps"], int)
        else str(summary["status"]),
        f"validation {metric.name}": "not measured" if value is None else f"{value:.4f} {metric.unit}",
        "best baseline": None if beside is None else f"{beside['name']} {beside['value']:.4f}",
        "training time": None if summary["seconds"] is None else duration(summary["seconds"]),
        "tainted": "yes: its figures mean nothing" if summary["tainted"] else None,
    }
    table = "".join(f"<tr><th>{escape(key)}</th><td>{escape(text)}</td></tr>" for key, text in rows.items() if text is not None)
    wrong = "".join(f"<p><b>{escape(str(one))}</b></p>" for one in findings)
    records = MetricsLog(run.metrics_file).read(lambda sentence: None)
    train = Points.from_records(records, metric.name if metric.name == "loss" else TRAIN + metric.name)
    curve = Curve("", train, Points.from_records(records, metric.recorded))
    if curve.train is None and curve.validation is None:
        return f"<table>{table}</table>{wrong}"
    levels = {beside["name"]: beside["value"]} if beside else {}
    drawn = learning_curves([curve], baselines=levels, unit=f"{metric.name} ({metric.unit})")
    return f"<table>{table}</table>{wrong}{inline_svg(drawn, label='learning curves', prefix='run-')}"


def in_one_line(summary: dict[str, Any]) -> str:
    """``Run('runs/a', finished at step 6, validation loss 2.1034)``."""
    value = summary[f"validation_{summary['metric']}"]
    figure = "" if value is None else f", validation {summary['metric']} {value:.4f}"
    return f"Run({summary['run']!r}, {summary['status']} at step {summary['step']}{figure})"


def metric_of(run: RunDirectory) -> Metric:
    """The metric that selects the run's best checkpoint; the loss of an imported run."""
    return _metric(run.read_environment() if run.environment_file.is_file() else {})


def _metric(environment: dict[str, Any]) -> Metric:
    known = environment.get("metric")
    return LOSS if known is None else Metric.from_dict(known)


def last_validation(run: RunDirectory, key: str) -> float | None:
    """The last recorded value of a validation figure."""
    value = MetricsLog(run.metrics_file).last(key)
    return float(value) if isinstance(value, int | float) else None
