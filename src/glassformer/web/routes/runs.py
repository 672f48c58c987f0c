"""Runs: the list of a folder, one run in detail with live curves, its evaluation. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from glassformer.checks.check_report import CheckReport
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.runs.curves import Curves
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import metric_of, progress_of
from glassformer.web.app_state import AppState, state_of
from glassformer.web.blocks import blocks_to_dicts
from glassformer.web.health import evaluation_blocks, evaluation_of, health_of
from glassformer.web.replies import body, number, reply, text_of, word
from glassformer.web.served_folder import NotFound

POINTS = 1200
MOST_POINTS = 20_000
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"


async def folder(request: Request) -> Response:
    """The table that ``glassformer runs --json`` prints, the studies, and what was started here."""
    state = state_of(request)
    answer = reply(await run_in_threadpool(_folder, state))
    state.shown.set()
    return answer


def _folder(state: AppState) -> dict[str, Any]:
    found, table = state.place.studies(), state.overview()
    studies = [state.place.name_of(one.root) for one in found]
    folders = [f"{one.root}/" for one in found]
    for row in table["runs"]:
        row["study"] = next((name for name, place in zip(studies, folders) if row["folder"].startswith(place)), None)
    return {
        "folder": str(state.place.root),
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


async def run(request: Request) -> Response:
    state, name = state_of(request), word(request, "run")
    return reply(await run_in_threadpool(_run, state, name))


def _run(state: AppState, name: str) -> dict[str, Any]:
    directory = state.place.run(name)
    row = state.table.row(directory)
    study = state.place.study_of(directory)
    document: dict[str, Any] = {
        **row,
        "name": name,
        "study": None if study is None else state.place.name_of(study.root),
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
    inside = place.is_absolute() and state.place.holds(place) and RunDirectory(place).exists()
    return {"run": str(place), "step": one.get("step"), "name": state.place.name_of(place) if inside else None}


ENVIRONMENT = ("glassformer", "python", "torch", "device_name", "precision", "threads", "platform", "recipe_fingerprint")


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


async def curves(request: Request) -> Response:
    """Every curve of a run between two steps, downsampled to the requested number of points."""
    state, name = state_of(request), word(request, "run")
    low, high, points = (number(request, key) for key in ("low", "high", "points"))
    wanted = request.query_params.getlist("key")

    def read() -> dict[str, Any]:
        found = state.curves(state.place.run(name))
        keys = [key for key in found.keys if key in wanted or not wanted]
        count = min(MOST_POINTS, max(2, int(points or POINTS)))
        return {
            "curves": {key: found.thinned(key, low=low, high=high, points=count) for key in keys},
            "sent": {key: found.length(key) for key in keys},
        }

    return reply(await run_in_threadpool(read))


async def run_events(request: Request) -> Response:
    """Streams new points of the curves and the status of the run."""
    state, name = state_of(request), word(request, "run")
    state.place.run(name)
    return state.hub.stream(f"run {name}", lambda: _watch(state, name))


def _watch(state: AppState, name: str) -> Callable[[], Any]:
    directory = state.place.run(name)
    found = Curves(directory.metrics_file)
    found.update()
    last: dict[str, Any] = {"progress": None, "rewritten": found.rewritten}
    sent = {key: found.length(key) for key in found.keys}

    def look() -> Any:
        progress = progress_of(state.place.run(name))
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
    file = state_of(request).place.run(word(request, "run")).report_file
    if not file.is_file() or file.is_symlink():
        raise NotFound("This run has no report yet; `glassformer report RUN` writes one.")
    return HTMLResponse(file.read_text(encoding="utf-8"), headers={"Content-Security-Policy": REPORT_POLICY})


async def cost(request: Request) -> Response:
    """What the run's model costs by part, as its report says."""
    state, name = state_of(request), word(request, "run")
    directory = state.place.run(name)

    def count() -> dict[str, Any]:
        found = state.worker.run(directory)
        recipe = found.recipe
        outputs = directory.read_environment().get("outputs")
        piece = recipe.training.batch_size // recipe.training.accumulate
        return recipe.model.cost(found.tokenizer.size, outputs=outputs, batch=piece).to_dict()

    return reply(await state.worker.do(count))


async def sample(request: Request) -> Response:
    """A sample of the last checkpoint, as in the report; null if the objective has none."""
    state, directory = state_of(request), state_of(request).place.run(word(request, "run"))

    def write() -> dict[str, Any]:
        from glassformer.run_report import sample_blocks

        step = directory.steps()[-1:]
        return {"step": step[0] if step else None, "blocks": blocks_to_dicts(sample_blocks(state.worker.run(directory))[1:])}

    return reply(await state.worker.do(write))


async def evaluate(request: Request) -> Response:
    """Evaluates the last checkpoint on the validation split, once; the result is saved in the run."""
    state = state_of(request)
    directory = state.place.run(text_of(await body(request), "run"))
    result = await state.worker.do(lambda: state.worker.run(directory).evaluation())
    return reply({"evaluation": blocks_to_dicts(evaluation_blocks(result))})


ROUTES = [
    Route("/api/folder", folder, methods=["GET"]),
    Route("/api/folder/events", folder_events, methods=["GET"]),
    Route("/api/run", run, methods=["GET"]),
    Route("/api/run/curves", curves, methods=["GET"]),
    Route("/api/run/events", run_events, methods=["GET"]),
    Route("/api/run/report", report, methods=["GET"]),
    Route("/api/run/cost", cost, methods=["GET"]),
    Route("/api/run/sample", sample, methods=["GET"]),
    Route("/api/run/evaluate", evaluate, methods=["POST"]),
]
