"""Runs: the list of a folder, one run in detail with live curves, its evaluation, warnings about it. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from glassformer.checks.check_report import CheckReport
from glassformer.evaluation.label_metrics import label_tables
from glassformer.evaluation.multilabel import multilabel_tables
from glassformer.evaluation.regression import regression_tables
from glassformer.evaluation.results import Evaluation
from glassformer.foundation.errors import GlassformerError, RunError
from glassformer.foundation.files import read_text
from glassformer.foundation.metrics import Metric
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.pages.page import Block, Paragraph, Table
from glassformer.runs.diagnosis import diagnosis_of
from glassformer.runs.directory import RunDirectory
from glassformer.runs.live_curves import Curves
from glassformer.runs.overview import abilities_of, metric_of, progress_of
from glassformer.study.running.trial_results import only_differs, problem_of
from glassformer.study.statistics.evidence import Problem
from glassformer.web.app_state import AppState, json_route, state_of
from glassformer.web.page_json import blocks_to_dicts
from glassformer.web.replies import number_of, reply, text_of
from glassformer.web.served_folder import NotFound

POINTS = 1200
MOST_POINTS = 20_000
ENVIRONMENT = ("glassformer", "python", "torch", "device_name", "precision", "threads", "platform", "recipe_fingerprint")
"""What the page shows of the machine that a run was trained on."""
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"

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


def folder(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The table that ``glassformer runs --json`` prints, the studies, and what was started here."""
    document = _folder(state)
    state.shown.set()
    return document


def _folder(state: AppState) -> dict[str, Any]:
    found, table = state.folder.studies(), state.overview()
    studies = [state.folder.name_of(one.root) for one in found]
    folders = [f"{one.root}/" for one in found]
    for row in table["runs"]:
        row["study"] = next((name for name, place in zip(studies, folders) if row["folder"].startswith(place)), None)
    return {
        "folder": str(state.folder.root),
        **table,
        "studies": studies,
        "started": state.processes.list(),
    }


async def folder_events(request: Request) -> Response:
    """Whenever the table changes."""
    state = state_of(request)

    def look() -> Callable[[], Any]:
        before: list[Any] = [None]

        def changed() -> Any:
            now = _folder(state)
            if now == before[0]:
                return None
            first, before[0] = before[0] is None, now
            return {"changed": not first}

        return changed

    return state.hub.stream("folder", look, pause=1.5)


def run(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    name = text_of(values, "run")
    directory = state.folder.run(name)
    row = state.table.row(directory)
    study = state.folder.study_of(directory)
    document: dict[str, Any] = {
        **row,
        "name": name,
        "study": None if study is None else state.folder.name_of(study.root),
        "started": state.processes.find(name),
        "report": directory.report_file.is_file(),
    }
    if row["status"] == "damaged":
        return {**document, "health": [{"tone": "warning", "text": _damage(directory)}], "checkpoints": []}
    environment = directory.read_environment() if directory.environment_file.is_file() else {}
    curves, evaluation = state.curves(directory), evaluation_of(directory)
    recipe = directory.read_recipe()
    return {
        **document,
        "progress": progress_of(directory),
        "abilities": abilities_of(recipe),
        "epoch_steps": environment.get("steps_per_epoch") if (recipe.get("training") or {}).get("epochs") else None,
        "baselines": progress_of(directory).get("baselines") or {},
        "about": recipe.get("about", ""),
        "recipe": dump_yaml(recipe),
        "environment": {key: environment.get(key) for key in ENVIRONMENT if environment.get(key) is not None},
        "checks": _checks(environment.get("checks")),
        "tainted": environment.get("tainted"),
        "ancestry": [_ancestor(state, one) for one in environment.get("ancestry", []) if isinstance(one, dict)],
        "openings": len(directory.openings()),
        "checkpoints": directory.steps(),
        "health": health_of(directory, progress_of(directory), curves),
        "evaluation": None if evaluation is None else blocks_to_dicts(evaluation_blocks(evaluation)),
        "keys": curves.keys,
        "main": ["loss", metric_of(directory).recorded],
    }


def _ancestor(state: AppState, one: dict[str, Any]) -> dict[str, Any]:
    """An ancestor of the run; ``name``: its name on the page, if it is in the folder."""
    place = Path(str(one.get("run", "")))
    inside = place.is_absolute() and state.folder.holds(place) and RunDirectory(place).exists()
    return {"run": str(place), "step": one.get("step"), "name": state.folder.name_of(place) if inside else None}


def _damage(directory: RunDirectory) -> str:
    """The first sentence that reading the run gives."""
    for read in (directory.read_recipe, directory.read_environment, directory.read_state):
        try:
            read()
        except Exception as error:
            return f"This run is damaged, the others are not: {error}"
    return "This run is damaged, the others are not: a file of it cannot be read."


def _checks(document: Any) -> list[str]:
    """The lines that ``glassformer check`` prints."""
    try:
        return CheckReport.from_dict(document).lines()
    except (KeyError, TypeError, AttributeError):
        return []


def health_of(run: RunDirectory, progress: dict[str, Any], curves: Curves) -> list[dict[str, str]]:
    """``[{"tone", "text"}]``: warnings to show above the figures of the run."""
    findings = diagnosis_of(run)
    found: list[dict[str, str]] = [{"tone": one.tone, "text": str(one), "code": one.code} for one in findings]
    codes, status = {one.code for one in findings}, progress["status"]
    if status in ENDINGS and status not in codes:
        reason = str(progress.get("reason") or "")
        found.append({"tone": "warning", "text": " ".join(filter(None, [ENDINGS[status], reason]))})
    if curves.damaged:
        sentence = f"{run.metrics_file.name}: {curves.damaged} of its lines are no records; they are left out."
        found.append({"tone": "warning", "text": sentence})
    last = curves.thinned("loss", points=2)["value"][-1:]
    if last == [None] and "diverged" not in codes:
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
    if problem is not None and not (problem is Problem.ONE_CLASS and "one-class" in codes):
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
    kinds = (label_tables, multilabel_tables, regression_tables)  # each gives tables of its own details only
    wrong = [found for tables in kinds for found in tables(evaluation.details)]
    notes = (Paragraph(note) for note in (*evaluation.reasons(), *evaluation.notes))
    return [table, *notes, *(Table(header, rows, caption=heading) for heading, header, rows in wrong)]


async def curves(request: Request) -> Response:
    """Every curve of a run between two steps, downsampled to the requested number of points."""
    state, values = state_of(request), dict(request.query_params)
    name, keys = text_of(values, "run"), request.query_params.getlist("key")
    low, high, points = (number_of(values, key) for key in ("low", "high", "points"))

    def read() -> dict[str, Any]:
        found = state.curves(state.folder.run(name))
        shown = [key for key in found.keys if key in keys or not keys]
        count = min(MOST_POINTS, max(2, int(points or POINTS)))
        return {
            "curves": {key: found.thinned(key, low=low, high=high, points=count) for key in shown},
            "sent": {key: found.length(key) for key in shown},
        }

    return reply(await run_in_threadpool(read))


async def run_events(request: Request) -> Response:
    """Streams new points of the curves and the status of the run."""
    state, name = state_of(request), text_of(dict(request.query_params), "run")
    state.folder.run(name)
    return state.hub.stream(f"run {name}", lambda: _watch(state, name))


def _watch(state: AppState, name: str) -> Callable[[], Any]:
    directory = state.folder.run(name)
    found = Curves(directory.metrics_file)
    found.update()
    last: dict[str, Any] = {"progress": None, "rewritten": found.rewritten}
    sent = {key: found.length(key) for key in found.keys}

    def look() -> Any:
        progress = progress_of(state.folder.run(name))
        new = found.update()
        if found.rewritten != last["rewritten"]:
            last["rewritten"] = found.rewritten
            sent.clear()
            sent.update((key, found.length(key)) for key in found.keys)
            return {"reload": True}
        points = {key: found.thinned(key, points=200, skip=sent.get(key, 0)) for key in found.keys} if new else {}
        sent.update((key, found.length(key)) for key in found.keys)
        if not new and progress == last["progress"]:
            return None
        last["progress"] = progress
        return {"progress": progress, "curves": {key: one for key, one in points.items() if one["of"]}, "sent": dict(sent)}

    return look


async def report(request: Request) -> Response:
    """The report written by ``glassformer report``, sandboxed."""
    file = state_of(request).folder.run(text_of(dict(request.query_params), "run")).report_file
    try:
        text = await run_in_threadpool(read_text, file)
    except (OSError, RunError):
        raise NotFound("This run has no report yet; `glassformer report RUN` writes one.") from None
    return HTMLResponse(text, headers={"Content-Security-Policy": REPORT_POLICY})


def cost(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """What the run's model costs by part, as its report says."""
    directory = state.folder.run(text_of(values, "run"))
    found = state.worker.run(directory)
    recipe, outputs = found.recipe, directory.read_environment().get("outputs")
    piece = recipe.training.batch_size // recipe.training.accumulate
    return recipe.model.cost(found.tokenizer.size, outputs=outputs, batch=piece).to_dict()


def sample(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """A sample of the last checkpoint, as in the report; null if the objective has none."""
    from glassformer.run_report import sample_blocks

    directory = state.folder.run(text_of(values, "run"))
    step = directory.steps()[-1:]
    return {"step": step[0] if step else None, "blocks": blocks_to_dicts(sample_blocks(state.worker.run(directory))[1:])}


def evaluate(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """Evaluates the last checkpoint on the validation split, once; the result is saved in the run."""
    found = state.worker.run(state.folder.run(text_of(values, "run")))
    return {"evaluation": blocks_to_dicts(evaluation_blocks(found.evaluation()))}


ROUTES = [
    json_route("GET", "/api/folder", folder),
    Route("/api/folder/events", folder_events, methods=["GET"]),
    json_route("GET", "/api/run", run),
    Route("/api/run/curves", curves, methods=["GET"]),
    Route("/api/run/events", run_events, methods=["GET"]),
    Route("/api/run/report", report, methods=["GET"]),
    json_route("GET", "/api/run/cost", cost, worker=True),
    json_route("GET", "/api/run/sample", sample, worker=True),
    json_route("POST", "/api/run/evaluate", evaluate, worker=True),
]
