"""Trial folders -> what each trial gave, as the statistics want it: values by document, weights, problems. Imports no torch.

Reads what a run wrote, checks that it belongs to the plan and is whole, and decides nothing about variants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from glassformer.evaluation.documents import DocumentLosses
from glassformer.evaluation.results import Evaluation
from glassformer.foundation.config import diff
from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import ConfigError, GlassformerError, RunError
from glassformer.foundation.files import read_json
from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import MetricsLog
from glassformer.study.evidence import Problem, Trials
from glassformer.study.plan import NOT_COMPARED, Trial

SPLIT = "validation"
IGNORES_CONTEXT = ("uniform", "unigram", "untrained")
"""Baselines that know nothing of the text before a token. One who is not above these has learned nothing; a bigram is a
model of its own, and a variant without any mixing cannot be more than that."""

Status = Literal["finished", "diverged", "failed", "pending"]


@dataclass(frozen=True)
class TrialResult:
    """One trial as its folder tells it. ``losses`` and the rest are None unless it is finished."""

    trial: Trial
    status: Status
    reason: str = ""
    problem: Problem | None = None
    losses: DocumentLosses | None = None
    evaluation: Evaluation | None = None
    tokens_per_second: float | None = None

    @property
    def done(self) -> bool:
        """Nothing is left to do: measured, or diverged, which it would do again."""
        return self.status in ("finished", "diverged")


def read_trial(folder: Path, trial: Trial, recipe: Mapping[str, Any] | None = None) -> TrialResult:
    """The trial in ``folder``; one that is damaged, or is of another recipe than ``recipe``, raises ``RunError``."""
    run = RunDirectory(folder)
    if not run.exists():
        return TrialResult(trial, "pending")
    try:
        return _read(run, trial, recipe)
    except (GlassformerError, KeyError, TypeError, ValueError, OSError, AttributeError, IndexError) as error:
        raise RunError(f"{folder} is damaged: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, GlassformerError) else f"{type(error).__name__}: {error}"


def _read(run: RunDirectory, trial: Trial, recipe: Mapping[str, Any] | None) -> TrialResult:
    _same_recipe(run, recipe)
    run.read_environment()["threads"]
    state = run.read_state()
    records = MetricsLog(run.metrics_file).read()
    status = state["status"]
    if status == "diverged":
        return TrialResult(trial, "diverged", str(state.get("reason", "")), Problem.DIVERGED)
    if status == "failed":
        return TrialResult(trial, "failed", str(state.get("reason", "")), Problem.MISSING)
    steps = run.steps()
    file = run.evaluation_file(SPLIT, steps[-1]) if steps else None
    if status != "finished" or file is None or not file.is_file():
        return TrialResult(trial, "pending")
    document = read_json(file)
    evaluation, losses = Evaluation.from_plain(document), DocumentLosses.from_arrays(document["losses"])
    _whole(evaluation, losses, file)
    rates = [record["tokens_per_second"] for record in records if "tokens_per_second" in record]
    return TrialResult(
        trial, "finished", "", _problem(evaluation, records), losses, evaluation, float(rates[-1]) if rates else None
    )


def _same_recipe(run: RunDirectory, recipe: Mapping[str, Any] | None) -> None:
    if recipe is None:
        return
    differing = [key for key in diff(run.read_recipe(), recipe) if key.split(".")[0] not in NOT_COMPARED or key == "seed"]
    if differing:
        raise RunError(f"it holds the run of another recipe ({differing[0]} differs).")


def _whole(evaluation: Evaluation, losses: DocumentLosses, file: Path) -> None:
    """The figures and the sums they came from stand in one file: changed digits show as a contradiction."""
    stated, tokens = evaluation.metrics["loss"].value, float(losses.tokens.sum())
    if stated is None or not math.isclose(stated, float(losses.nats.sum()) / max(tokens, 1.0), rel_tol=1e-9):
        raise RunError(f"the losses by document in {file.name} do not give the loss that stands there.")


def _problem(evaluation: Evaluation, records: Sequence[Mapping[str, Any]]) -> Problem | None:
    """What makes a measured trial unusable. Who once was above the trivial baselines and ended below them collapsed."""
    if evaluation.tainted is not None:
        return Problem.LEAK
    own = evaluation.metrics["loss"].value
    levels = [evaluation.baselines[name]["loss"].value for name in IGNORES_CONTEXT if name in evaluation.baselines]
    trivial = min((level for level in levels if level is not None), default=math.inf)
    if own is not None and own < trivial:
        return None
    seen = [record["validation_loss"] for record in records if "validation_loss" in record]
    return Problem.COLLAPSED if any(loss < trivial for loss in seen) else Problem.NOT_ABOVE_TRIVIAL


def document_values(losses: DocumentLosses, metric: str) -> tuple[Floats, Floats]:
    """The metric of each document, and the weight of each: its tokens, or its bytes."""
    if metric == "loss":
        sizes, nats = losses.tokens.astype(np.float64), losses.nats
    elif metric == "bits_per_byte":
        if np.isnan(losses.bytes).any():
            raise ConfigError("metric=bits_per_byte: this tokenizer does not say how many bytes a token stands for; use loss.")
        sizes, nats = losses.bytes, losses.nats / math.log(2.0)
        # Marks alone have nats and no bytes: theirs are shared out to all, so that the sum stays that of the text.
        nats = np.where(sizes > 0, nats + nats[sizes == 0].sum() * sizes / sizes.sum(), 0.0)
    else:
        raise ConfigError(f"metric={metric} is not measured by a language model; use loss or bits_per_byte.")
    values = np.zeros(len(nats))
    np.divide(nats, sizes, out=values, where=sizes > 0)
    return values, sizes


def metric_of(losses: DocumentLosses, metric: str) -> float:
    """The metric over the whole set."""
    values, sizes = document_values(losses, metric)
    return float(values @ sizes) / float(sizes.sum())


def gathered(
    results: Mapping[str, Sequence[TrialResult]],
    metric: str,
    *,
    leaks: Mapping[str, int],
    exploratory: Sequence[str] = (),
) -> tuple[dict[str, Trials], Floats]:
    """Every variant's trials, up to the first that is still to come, and the documents' weights.

    ``results``: by variant, in the order of the seeds. ``leaks``: variants that were not trained because a check found a
    leak, and for how many seeds they count.
    """
    weights = _weights(results, metric)
    gathered = {}
    for name, rows in results.items():
        if name in leaks:
            values = np.full((leaks[name], len(weights)), np.nan)
            problems = dict.fromkeys(range(leaks[name]), Problem.LEAK)
        else:
            ended = _until_pending(rows)
            values = np.array([_row(result, metric, len(weights)) for result in ended]).reshape(len(ended), len(weights))
            problems = {at: result.problem for at, result in enumerate(ended) if result.problem is not None}
        gathered[name] = Trials(name, values, problems, name in exploratory)
    return gathered, weights


def _until_pending(rows: Sequence[TrialResult]) -> list[TrialResult]:
    pending = next((at for at, result in enumerate(rows) if result.status == "pending"), len(rows))
    return list(rows[:pending])


def _row(result: TrialResult, metric: str, documents: int) -> Floats:
    return np.full(documents, np.nan) if result.losses is None else document_values(result.losses, metric)[0]


def _weights(results: Mapping[str, Sequence[TrialResult]], metric: str) -> Floats:
    """The same for every trial, or else they were not measured on the same text."""
    first: tuple[TrialResult, Floats] | None = None
    for rows in results.values():
        for result in rows:
            if result.losses is None:
                continue
            sizes = document_values(result.losses, metric)[1]
            if first is None:
                first = result, sizes
            elif not np.array_equal(sizes, first[1]):
                raise ConfigError(
                    f"{result.trial.label} and {first[0].trial.label} were not measured on the same documents; every variant "
                    "must be evaluated on the same text (and, for metric=loss, in the same tokens)."
                )
    return np.ones(1) if first is None else first[1]
