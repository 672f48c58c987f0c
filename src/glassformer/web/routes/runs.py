"""Runs: the list of a folder, one run in detail with live curves, its evaluation. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from glassformer.checks.report import CheckReport
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.runs.curves import Curves
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import metric_of, progress_of
from glassformer.web.blocks import blocks_to_dicts
from glassformer.web.desk import Desk, desk_of
from glassformer.web.health import evaluation_blocks, evaluation_of, health_of
from glassformer.web.place import NotFound
from glassformer.web.replies import body, number, reply, text_of, word

POINTS = 1200
MOST_POINTS = 20_000
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"


async def folder(request: Request) -> Response:
    """The table that ``glassformer runs --json`` prints, the studies, and what was started here."""
    desk = desk_of(request)
    answer = reply(await run_in_threadpool(_folder, desk))
    desk.shown.set()
    return answer


def _folder(desk: Desk) -> dict[str, Any]:
    found, table = desk.place.studies(), desk.overview()
    studies = [desk.place.name_of(one.root) for one in found]
    folders = [f"{one.root}/" for one in found]
    for row in table["runs"]:
        row["study"] = next((name for name, place in zip(studies, folders) if row["folder"].startswith(place)), None)
    return {
        "folder": str(desk.place.root),
        **table,
        "studies": studies,
        "started": desk.processes.list(),
    }


async def folder_events(request: Request) -> Response:
    """Whenever the table changes."""
    desk = desk_of(request)

    def look() -> Callable[[], Any]:
        before: list[Any] = [None]

        def changed() -> Any:
            now = _folder(desk)
            if now == before[0]:
                return None
            first, before[0] = before[0] is None, now
            return {"changed": not first}

        return changed

    return desk.hub.stream("folder", look, pause=1.5)


async def run(request: Request) -> Response:
    desk, name = desk_of(request), word(request, "run")
    return reply(await run_in_threadpool(_run, desk, name))


def _run(desk: Desk, name: str) -> dict[str, Any]:
    directory = desk.place.run(name)
    row = desk.table.row(directory)
    study = desk.place.study_of(directory)
    document: dict[str, Any] = {
        **row,
        "name": name,
        "study": None if study is None else desk.place.name_of(study.root),
        "started": desk.processes.find(name),
        "report": directory.report_file.is_file(),
    }
    if row["status"] == "damaged":
        return {**document, "health": [{"tone": "warning", "text": _damage(directory)}], "checkpoints": []}
    environment = directory.read_environment() if directory.environment_file.is_file() else {}
    curves, evaluation = desk.curves(directory), evaluation_of(directory)
    recipe = directory.read_recipe()
    return {
        **document,
        "progress": progress_of(directory),
        "about": recipe.get("about", ""),
        "recipe": dump_yaml(recipe),
        "environment": {key: environment.get(key) for key in ENVIRONMENT if environment.get(key) is not None},
        "checks": _checks(environment.get("checks")),
        "tainted": environment.get("tainted"),
        "ancestry": [_ancestor(desk, one) for one in environment.get("ancestry", []) if isinstance(one, dict)],
        "openings": len(directory.openings()),
        "checkpoints": directory.steps(),
        "health": health_of(directory, progress_of(directory), curves),
        "evaluation": None if evaluation is None else blocks_to_dicts(evaluation_blocks(evaluation)),
        "keys": curves.keys,
        "main": ["loss", metric_of(directory).recorded],
    }


def _ancestor(desk: Desk, one: dict[str, Any]) -> dict[str, Any]:
    """An ancestor of the run; ``name``: its name on the page, if it is in the folder."""
    place = Path(str(one.get("run", "")))
    inside = place.is_absolute() and desk.place.holds(place) and RunDirectory(place).exists()
    return {"run": str(place), "step": one.get("step"), "name": desk.place.name_of(place) if inside else None}


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
    desk, name = desk_of(request), word(request, "run")
    low, high, points = (number(request, key) for key in ("low", "high", "points"))
    wanted = request.query_params.getlist("key")

    def read() -> dict[str, Any]:
        found = desk.curves(desk.place.run(name))
        keys = [key for key in found.keys if key in wanted or not wanted]
        count = min(MOST_POINTS, max(2, int(points or POINTS)))
        return {
            "curves": {key: found.thinned(key, low=low, high=high, points=count) for key in keys},
            "sent": {key: found.length(key) for key in keys},
        }

    return reply(await run_in_threadpool(read))


async def run_events(request: Request) -> Response:
    """Streams new points of the curves and the status of the run."""
    desk, name = desk_of(request), word(request, "run")
    desk.place.run(name)
    return desk.hub.stream(f"run {name}", lambda: _watch(desk, name))


def _watch(desk: Desk, name: str) -> Callable[[], Any]:
    directory = desk.place.run(name)
    found = Curves(directory.metrics_file)
    found.update()
    state: dict[str, Any] = {"progress": None, "rewritten": found.rewritten}
    sent = {key: found.length(key) for key in found.keys}

    def look() -> Any:
        progress = progress_of(desk.place.run(name))
        new = found.update()
        if found.rewritten != state["rewritten"]:
            state["rewritten"] = found.rewritten
            sent.clear()
            sent.update((key, found.length(key)) for key in found.keys)
            return {"reload": True}
        points = {key: found.thinned(key, points=200, skip=sent.get(key, 0)) for key in found.keys} if new else {}
        sent.update((key, found.length(key)) for key in found.keys)
        if not new and progress == state["progress"]:
            return None
        state["progress"] = progress
        return {"progress": progress, "curves": {key: one for key, one in points.items() if one["of"]}, "sent": dict(sent)}

    return look


async def report(request: Request) -> Response:
    """The report written by ``glassformer report``, sandboxed."""
    file = desk_of(request).place.run(word(request, "run")).report_file
    if not file.is_file() or file.is_symlink():
        raise NotFound("This run has no report yet; `glassformer report RUN` writes one.")
    return HTMLResponse(file.read_text(encoding="utf-8"), headers={"Content-Security-Policy": REPORT_POLICY})


async def cost(request: Request) -> Response:
    """What the run's model costs by part, as its report says."""
    desk, name = desk_of(request), word(request, "run")
    directory = desk.place.run(name)

    def count() -> dict[str, Any]:
        found = desk.workshop.run(directory)
        recipe = found.recipe
        outputs = directory.read_environment().get("outputs")
        piece = recipe.training.batch_size // recipe.training.accumulate
        return recipe.model.cost(found.tokenizer.size, outputs=outputs, batch=piece).to_dict()

    return reply(await desk.workshop.do(count))


async def sample(request: Request) -> Response:
    """A sample of the last checkpoint, as in the report; null if the objective has none."""
    desk, directory = desk_of(request), desk_of(request).place.run(word(request, "run"))

    def write() -> dict[str, Any]:
        from glassformer.run_report import sample_blocks

        step = directory.steps()[-1:]
        return {"step": step[0] if step else None, "blocks": blocks_to_dicts(sample_blocks(desk.workshop.run(directory))[1:])}

    return reply(await desk.workshop.do(write))


async def evaluate(request: Request) -> Response:
    """Evaluates the last checkpoint on the validation split, once; the result is saved in the run."""
    desk = desk_of(request)
    directory = desk.place.run(text_of(await body(request), "run"))
    result = await desk.workshop.do(lambda: desk.workshop.run(directory).evaluation())
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
