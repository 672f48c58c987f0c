"""Warnings about a run from its files: why it ended, baselines it does not beat, leaks. Imports no torch."""

from __future__ import annotations

import math
from typing import Any

from glassformer.evaluation.results import Evaluation
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.metrics import Metric
from glassformer.pages.page import Block, Paragraph, Table
from glassformer.runs.curves import Curves
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import metric_of
from glassformer.study.inference.evidence import Problem
from glassformer.study.running.trial_results import only_differs, problem_of

ENDINGS = {
    "diverged": "The loss stopped being a number.",
    "failed": "It ended with an error.",
    "killed": "Its process is gone without a word; it can be resumed from its last checkpoint.",
    "damaged": "Its files were changed or damaged after they were written.",
}
PROBLEMS = {
    Problem.LEAK: "A check found a leak: its figures mean nothing.",
    Problem.STEP_DIFFERS: "The step that trains it differs from the plain step: its figures are not those of the recipe.",
    Problem.COLLAPSED: "It collapsed: it had learned, and ended no better than the trivial baseline.",
    Problem.ONE_CLASS: "It collapsed: it predicts one class for every text. Try a smaller training.lr or a warm-up.",
    Problem.NOT_ABOVE_TRIVIAL: "It is not better than the trivial baseline.",
}


def health_of(run: RunDirectory, progress: dict[str, Any], curves: Curves) -> list[dict[str, str]]:
    """``[{"tone", "text"}]``: warnings to show above the figures of the run."""
    found: list[dict[str, str]] = []
    status = progress["status"]
    if status in ENDINGS:
        reason = str(progress.get("reason") or "")
        found.append({"tone": "warning", "text": " ".join(filter(None, [ENDINGS[status], reason]))})
    last = curves.thinned("loss", points=2)["value"][-1:]
    if last == [None] and status != "diverged":
        found.append({"tone": "warning", "text": "The last recorded loss is not a number."})
    evaluation = evaluation_of(run)
    if evaluation is None:
        return found
    metric = metric_of(run)
    own = evaluation.metrics[metric.name].value if metric.name in evaluation.metrics else None
    if own is None:
        return found
    values = curves.thinned(metric.recorded, points=10_000)["value"]
    records = [{metric.recorded: math.nan if value is None else value} for value in values]
    problem = problem_of(evaluation, records, metric)
    if problem is Problem.LEAK and only_differs(run):
        problem = Problem.STEP_DIFFERS
    if problem is not None:
        found.append({"tone": "warning", "text": PROBLEMS[problem]})
    not_beaten = [name for name in evaluation.baselines if not _beats(evaluation, name, metric, own)]
    if not_beaten:
        found.append({"tone": "warning", "text": f"Its {metric.name} is not better than that of: {', '.join(not_beaten)}."})
    elif evaluation.baselines:
        found.append({"tone": "note", "text": f"Its {metric.name} is better than every baseline's."})
    return found


def _beats(evaluation: Evaluation, baseline: str, metric: Metric, own: float) -> bool:
    figures = evaluation.baselines[baseline]
    value = figures[metric.name].value if metric.name in figures else None
    return value is None or metric.better(own - value)


def evaluation_of(run: RunDirectory) -> Evaluation | None:
    """The saved evaluation of the last checkpoint on the validation split, if any."""
    steps = run.steps()
    file = run.evaluation_file("validation", steps[-1]) if steps else None
    if file is None or not file.is_file():
        return None
    try:
        return Evaluation.read(file)
    except (GlassformerError, KeyError, TypeError, ValueError, AttributeError):
        return None


def evaluation_blocks(evaluation: Evaluation) -> list[Block]:
    """The table that ``glassformer evaluate`` prints."""
    table = Table(evaluation.header(), evaluation.cells(), caption=evaluation.about(), tainted=evaluation.tainted)
    return [table, *(Paragraph(note) for note in (*evaluation.reasons(), *evaluation.notes))]
