"""Studies: the report's page as blocks, verdicts first, and the progress of every trial; live while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.foundation.errors import GlassformerError
from glassformer.runs.directory import RunDirectory, find_runs
from glassformer.runs.overview import file_signature, progress_of
from glassformer.study.directory import StudyDirectory
from glassformer.web.app_state import AppState, json_route, state_of
from glassformer.web.page_json import page_to_dict
from glassformer.web.replies import text_of


def study(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The JSON of ``glassformer compare``, its page, and its trials. Cached until a file changes."""
    name = text_of(values, "study")
    directory = state.folder.study(name)
    now = _signature(directory)
    known = state.cache.get(f"study {name}")
    if known is None or known[0] != now:
        known = now, _read(directory)
        state.cache[f"study {name}"] = known
    trials = _trials(state, directory)
    return {**known[1], "name": name, "trials": trials, "started": state.processes.find(name)}


def _read(directory: StudyDirectory) -> dict[str, Any]:
    from glassformer.study.reporting.study_report import study_page
    from glassformer.study.study import Study

    try:
        found = Study.load(directory.root)
        return {"study": found.to_dict(), "page": page_to_dict(study_page(found)), "damaged": None}
    except (GlassformerError, KeyError, TypeError, ValueError, OSError) as error:
        return {"study": None, "page": None, "damaged": str(error)}


def _trials(state: AppState, directory: StudyDirectory) -> list[dict[str, Any]]:
    rows = []
    for run in find_runs(directory.root):
        row = state.table.row(run)
        shown = ("status", "step", "steps", "metric", f"validation_{row['metric']}")
        rows.append({"name": state.folder.name_of(run.root), **{key: row.get(key) for key in shown}})
    return rows


def _signature(directory: StudyDirectory) -> tuple[Any, ...]:
    """A signature of the files that the verdicts depend on."""
    runs = find_runs(directory.root)
    files = [directory.plan_file, directory.variants_file, directory.values_file, directory.earlier_file]
    return tuple(map(file_signature, [*files, *(file for run in runs for file in (run.state_file, run.evaluations))]))


async def study_events(request: Request) -> Response:
    """Streams the progress of the trials; ``changed`` when a verdict may have changed."""
    state, name = state_of(request), text_of(dict(request.query_params), "study")
    state.folder.study(name)
    return state.hub.stream(f"study {name}", lambda: _watch(state, name), pause=1.0)


def _watch(state: AppState, name: str) -> Callable[[], Any]:
    before: dict[str, Any] = {"signature": None, "trials": None}

    def look() -> Any:
        directory = state.folder.study(name)
        alive = (state.processes.find(name) or {}).get("alive")  # its process ends after the last file is written
        signature, trials = (alive, *_signature(directory)), [_progress(run) for run in find_runs(directory.root)]
        if signature == before["signature"] and trials == before["trials"]:
            return None
        changed = before["signature"] is not None and signature != before["signature"]
        before.update(signature=signature, trials=trials)
        return {"changed": changed, "trials": _trials(state, directory)}

    return look


def _progress(run: RunDirectory) -> Any:
    try:
        return progress_of(run)
    except GlassformerError as error:
        return str(error)


ROUTES = [
    json_route("GET", "/api/study", study),
    Route("/api/study/events", study_events, methods=["GET"]),
]
