"""Trial folders -> trial results: metric values by document, weights, problems. Imports no torch.

Verifies that a run belongs to the plan and is complete; decides nothing about variants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

import numpy as np

from glassformer.evaluation.results import Evaluation, Units
from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import ConfigError, GlassformerError, RunError
from glassformer.foundation.metrics import COLLAPSED_TO, VALIDATION, Metric
from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import MetricsLog
from glassformer.study.planning.plan import VALIDATION_SPLIT, Trial
from glassformer.study.statistics.evidence import Problem, Trials

Status = Literal["finished", "diverged", "failed", "pending"]
LOGGED = ("seconds", "tokens_per_second", "tokens", "peak_bytes", "flops_growth", "moved")
"""Seconds of training; tokens of all batches that were drawn; the most that a measured step stored at once; FLOPs per token of
later steps in those of the second one; watched steps in which something but the optimizer changed the weights."""


@dataclass(frozen=True)
class TrialResult:
    """One trial as read from its folder. ``units`` (by metric) and the fields after it are empty unless it is finished."""

    trial: Trial
    status: Status
    reason: str = ""
    problem: Problem | None = None
    units: Mapping[str, Units] | None = None
    evaluation: Evaluation | None = None
    run: RunDirectory = field(default_factory=lambda: RunDirectory(Path()))
    environment: Mapping[str, Any] = field(default_factory=dict)
    logged: Mapping[str, float] = field(default_factory=dict)
    """The last values of ``LOGGED`` that its metrics have."""

    @property
    def done(self) -> bool:
        """Evaluated, or diverged, which it would do again."""
        return self.status in ("finished", "diverged")

    @property
    def step(self) -> int | None:
        """The step it ended at."""
        return None if self.evaluation is None else self.evaluation.step


def read_trial(
    folder: Path,
    trial: Trial,
    metric: Metric,
    split: str = VALIDATION_SPLIT,
    same_recipe: Callable[[Mapping[str, Any]], str | None] | None = None,
) -> TrialResult:
    """The trial in ``folder``; one that is damaged or of another recipe raises ``RunError``.

    ``same_recipe``: given the stored recipe, names a key that differs from the planned one, or None.
    """
    run = RunDirectory(folder)
    if not run.exists():
        return TrialResult(trial, "pending")
    try:
        return _read(run, trial, metric, split, same_recipe)
    except (GlassformerError, KeyError, TypeError, ValueError, OSError, AttributeError, IndexError) as error:
        reason = str(error) if isinstance(error, GlassformerError) else f"{type(error).__name__}: {error}"
        raise RunError(f"{folder} is damaged: {reason}", reason="damaged") from error


def _read(
    run: RunDirectory,
    trial: Trial,
    metric: Metric,
    split: str,
    same_recipe: Callable[[Mapping[str, Any]], str | None] | None,
) -> TrialResult:
    differing = same_recipe(run.read_recipe()) if same_recipe is not None else None
    if differing is not None:
        raise RunError(f"it holds the run of another recipe ({differing} differs).", reason="other-recipe")
    environment = run.read_environment("threads")
    state = run.read_state()
    records = MetricsLog(run.metrics_file).read()
    status = state["status"]
    if status == "diverged":
        return TrialResult(trial, "diverged", str(state.get("reason", "")), Problem.DIVERGED)
    if status == "failed":
        return TrialResult(trial, "failed", str(state.get("reason", "")), Problem.MISSING)
    step = [state.get("step"), *run.steps()][-1]  # a trial that came without its weights has no checkpoint
    file = run.evaluation_file(split, step) if step is not None else None
    if status != "finished" or file is None or not file.is_file():
        return TrialResult(trial, "pending")
    evaluation = Evaluation.read(file)
    _verify_consistent(evaluation, file)
    logged = {key: record[key] for record in records for key in LOGGED if key in record}
    problem = problem_of(evaluation, records, metric)
    return TrialResult(trial, "finished", "", problem, evaluation.units, evaluation, run, environment, logged)


def _verify_consistent(evaluation: Evaluation, file: Path) -> None:
    """Raises if the metrics do not follow from the sums by unit in the same file, which detects edits."""
    if not evaluation.units:
        raise RunError(f"{file.name} holds no sums by unit.", reason="no-sums")
    for name, units in evaluation.units.items():
        stated = evaluation.metrics[name].value
        if stated is None or not math.isclose(stated, units.value, rel_tol=1e-9, abs_tol=1e-12):
            raise RunError(f"the sums by unit in {file.name} do not give the {name} stored there.", reason="sums-disagree")


def only_differs(run: RunDirectory) -> bool:
    """Whether the only finding of the checks before training is a fast path that differs from the eager one."""
    findings = (run.read_environment().get("checks") or {}).get("findings", ())
    return {finding["law"] for finding in findings} == {"path"}


def problem_of(evaluation: Evaluation, records: Sequence[Mapping[str, Any]], metric: Metric) -> Problem | None:
    """Why an evaluated trial cannot be used, or None. Collapsed: it was above the trivial baselines before the end."""
    if evaluation.tainted is not None:
        return Problem.LEAK
    named = (evaluation.baselines[name] for name in evaluation.trivial if name in evaluation.baselines)
    levels = [figures[metric.name].value for figures in named if metric.name in figures]
    known = [level for level in levels if level is not None]
    if not known:
        return None
    trivial = min(known) if metric.lower_is_better else max(known)
    own = evaluation.metrics[metric.name].value
    if own is not None and metric.better(own - trivial):
        return None
    evaluated = [record for record in records if metric.recorded in record]
    if evaluated and evaluated[-1].get(VALIDATION + COLLAPSED_TO) is not None:
        return Problem.ONE_CLASS
    seen = [record[metric.recorded] for record in evaluated]
    return Problem.COLLAPSED if any(metric.better(value - trivial) for value in seen) else Problem.NOT_ABOVE_TRIVIAL


def units_of(units: Mapping[str, Units], metric: Metric) -> Units:
    """One metric of a trial; raises if it was not computed."""
    if metric.name not in units:
        raise ConfigError(
            f"metric={metric.name} has no value for every unit of this set (a tokenizer may not say how many bytes a token "
            f"stands for); use one of {', '.join(units)}.",
            reason="metric-without-values",
        )
    return units[metric.name]


def metric_of(units: Mapping[str, Units], metric: Metric) -> float:
    """The metric over the whole set."""
    return units_of(units, metric).value


def gather_trials(
    results: Mapping[str, Sequence[TrialResult]],
    metric: Metric,
    *,
    leaks: Mapping[str, int],
    exploratory: Sequence[str] = (),
) -> tuple[dict[str, Trials], Floats]:
    """Every variant's trials up to the first pending one, and the documents' weights.

    ``results``: by variant, in the order of the seeds. ``leaks``: variants not trained because of a leak, with the number of
    seeds to count for them.
    """
    results = _without_first_token(results, metric)
    weights = _weights(results, metric)
    gathered = {}
    for name, rows in results.items():
        if name in leaks:
            values = np.full((leaks[name], len(weights)), np.nan)
            problems = dict.fromkeys(range(leaks[name]), Problem.LEAK)
        else:
            ended = list(takewhile(lambda result: result.status != "pending", rows))
            values = np.full((len(ended), len(weights)), np.nan)
            problems = {at: result.problem for at, result in enumerate(ended) if result.problem is not None}
            for at, (row, result) in enumerate(zip(values, ended)):
                own = None if result.units is None else units_of(result.units, metric)
                if own is not None and np.array_equal(own.weights, weights):
                    row[:] = own.values
                elif own is not None:  # it costs this variant its verdict, not the others
                    problems[at] = Problem.OTHER_UNITS
        gathered[name] = Trials(name, values, problems, name in exploratory)
    return gathered, weights


def _without_first_token(results: Mapping[str, Sequence[TrialResult]], metric: Metric) -> Mapping[str, Sequence[TrialResult]]:
    """The first token is never predicted, and its size depends on the tokenizer.

    Where trials differ only in the size of the first document, it is left out for all, so that all count the same bytes.
    """
    sizes = [units_of(result.units, metric).weights for rows in results.values() for result in rows if result.units is not None]
    same_number = len({len(one) for one in sizes}) == 1
    if len(sizes) < 2 or not same_number or len(sizes[0]) < 2 or all(np.array_equal(one, sizes[0]) for one in sizes):
        return results
    if not all(np.array_equal(one[1:], sizes[0][1:]) for one in sizes):
        return results
    others = np.arange(len(sizes[0])) > 0

    def without_first(result: TrialResult) -> TrialResult:
        if result.units is None:
            return result
        own = units_of(result.units, metric)
        return replace(result, units={**result.units, metric.name: Units(own.sums * others, own.weights * others)})

    return {name: [without_first(result) for result in rows] for name, rows in results.items()}


def _weights(results: Mapping[str, Sequence[TrialResult]], metric: Metric) -> Floats:
    """The documents' weights in the first trial, which is the baseline's; all of its trials must have the same."""
    measured = {
        name: [(one.trial.label, units_of(one.units, metric).weights) for one in rows if one.units is not None]
        for name, rows in results.items()
    }
    first = next((rows for rows in measured.values() if rows), [])
    for label, weights in first:
        if not weights.sum() > 0.0:
            raise ConfigError(f"{label} was measured on nothing: all {len(weights)} units weigh 0.", reason="nothing-measured")
        if not np.array_equal(weights, first[0][1]):
            raise ConfigError(
                f"{label} and {first[0][0]} were not measured on the same documents; every variant "
                "must be evaluated on the same text (and, for metric=loss, in the same tokens).",
                reason="other-documents",
            )
    return first[0][1] if first else np.ones(1)
