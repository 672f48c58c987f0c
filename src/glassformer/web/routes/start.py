"""New: recipes and their schema, live validation of a recipe, its cost; starting, stopping and resuming processes."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.foundation.config import Config
from glassformer.foundation.errors import RunError, UsageError
from glassformer.runs.overview import progress_of
from glassformer.web.app_state import AppState, state_of
from glassformer.web.processes import stop_run
from glassformer.web.replies import body, reply, text_of, word

RUN = "run:"
"""A base that is a run's own recipe: ``run:NAME``."""


class Form(Config):
    """The content of a form: base recipe, changes and, for a study, what is varied."""

    base: str
    set: dict[str, Any] = Field(default_factory=dict)
    vary: list[str] = Field(default_factory=list)
    seeds: int = 4
    name: str = ""


async def recipes(request: Request) -> Response:
    """The JSON of ``glassformer recipes``."""

    def read() -> dict[str, Any]:
        from glassformer.recipe import list_recipes, list_variants
        from glassformer.study.planning.plan import list_studies

        return {"recipes": list_recipes(), "studies": list_studies(), "variants": list_variants()}

    return reply(await state_of(request).worker.do(read))


async def schema(request: Request) -> Response:
    """The schema of recipes, and the values of the base."""
    state, base = state_of(request), word(request, "base")

    def read() -> dict[str, Any]:
        from glassformer.recipe import load_recipe
        from glassformer.web.schema import recipe_schema

        return {"schema": recipe_schema(), "recipe": load_recipe(_source(state, base)).to_dict()}

    return reply(await state.worker.do(read))


def _source(state: AppState, base: str) -> str:
    """The file of a built-in recipe, or of a run in the folder; no other file is read for the page.

    A path and not a name, since a run in the folder may have the name of a recipe.
    """
    from glassformer.foundation.errors import UnknownName
    from glassformer.recipe import built_in_recipes

    if base.startswith(RUN):
        return str(state.place.run(base.removeprefix(RUN)).recipe_file)
    built_in = built_in_recipes()
    if base not in built_in:
        raise UnknownName("The list of built-in recipes", base, built_in)
    return str(built_in[base])


async def check(request: Request) -> Response:
    """Whether the recipe is valid, with the messages of the command line; reads only the recipe."""
    state, form = state_of(request), Form.parse(await body(request))

    def read() -> dict[str, Any]:
        from glassformer.recipe import load_recipe

        recipe = load_recipe(_source(state, form.base), form.set)
        changes = [one.name for one in _plan(state, form).changes] if form.vary else []
        return {"recipe": recipe.to_dict(), "fingerprint": recipe.fingerprint, "changes": changes}

    return reply(await state.worker.do(read))


def _plan(state: AppState, form: Form) -> Any:
    from glassformer.study.planning.planned_study import plan_studies

    return plan_studies(_source(state, form.base), form.vary, set=form.set, settings={"seeds": form.seeds})[0].plan


async def cost(request: Request) -> Response:
    """What ``train --dry-run`` prints; for a study, of all its runs."""
    state, form = state_of(request), Form.parse(await body(request))

    def count() -> dict[str, Any]:
        from glassformer.recipe_cost import plan

        found = plan(_source(state, form.base), set=form.set)
        document = {"plan": found.to_dict(), "facts": found.facts(), "runs": 1, "flops": found.flops}
        if form.vary:
            changes = _plan(state, form).changes
            flops = [plan(_source(state, form.base), set={**form.set, **one.set}).flops for one in changes]
            runs = form.seeds * (1 + len(changes))
            document |= {"runs": runs, "flops": form.seeds * (found.flops + sum(flops))}
        return document

    return reply(await state.worker.do(count))


async def start(request: Request) -> Response:
    """Starts ``glassformer train`` or ``glassformer compare`` in the folder."""
    state, form = state_of(request), Form.parse(await body(request))

    def begin() -> dict[str, Any]:
        from glassformer.recipe import load_recipe

        folder, source = state.place.new(form.name), _source(state, form.base)
        load_recipe(source, form.set)
        if folder.exists() and any(folder.iterdir()):
            raise RunError(f"{form.name} is not empty; choose another name, or resume the run that is there.")
        changes = [word for key, value in form.set.items() for word in ("--set", f"{key}={_in_yaml(value)}")]
        if form.vary:
            _plan(state, form)
            varied = [word for one in form.vary for word in ("--vary", one)]
            words = ["compare", source, *varied, "--seeds", str(form.seeds), *changes, "--out", str(folder)]
            return state.processes.start(form.name, "study", words)
        return state.processes.start(form.name, "run", ["train", source, *changes, "--out", str(folder)])

    return reply({"started": await state.worker.do(begin)})


def _in_yaml(value: Any) -> str:
    """JSON that is also valid YAML: surrogate escapes of an emoji would be two broken characters there."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)


async def stop(request: Request) -> Response:
    """Requests a run or a study to stop after its current step; it can be resumed."""
    state, name = state_of(request), text_of(await body(request), "name")
    await run_in_threadpool(_stop, state, name)
    return reply({"stopped": name})


def _stop(state: AppState, name: str) -> None:
    known = state.processes.find(name)
    if known is not None and known["alive"]:
        state.processes.stop(name)
        return
    directory = state.place.run(name)
    study = state.place.study_of(directory)
    if study is not None:
        raise UsageError(f"{name} is a trial of the study {state.place.name_of(study.root)}; stop the study.")
    progress = progress_of(directory)
    if progress["status"] != "running":
        raise RunError(f"{name} is not running: it is {progress['status']}.")
    stop_run(directory)


async def resume(request: Request) -> Response:
    """Resumes a stopped run or study; a finished run with more steps."""
    state, values = state_of(request), await body(request)
    name, steps = text_of(values, "name"), values.get("steps")
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
        raise UsageError(f"steps={steps!r} must be a whole number of 1 or more.")
    return reply({"started": await run_in_threadpool(_resume, state, name, steps)})


def _resume(state: AppState, name: str, steps: int | None) -> dict[str, Any]:
    known = state.processes.find(name)
    if known is not None and known["kind"] == "study":
        study = state.place.study(name)
        state.processes.wait(name)
        return state.processes.start(name, "study", ["compare", str(study.root)])
    directory = state.place.run(name)
    if state.place.study_of(directory) is not None:
        raise UsageError(f"{name} is a trial of a study; resume the study.")
    if progress_of(directory)["status"] == "running":
        raise RunError(f"{name} is running; stop it first.")
    state.processes.wait(name)  # it reported that it stopped, but may still be closing its files
    more = [] if steps is None else ["--set", f"training.steps={steps}"]
    words = ["train", str(directory.recipe_file), *more, "--out", str(directory.root), "--resume"]
    return state.processes.start(name, "run", words)


ROUTES = [
    Route("/api/recipes", recipes, methods=["GET"]),
    Route("/api/recipe/schema", schema, methods=["GET"]),
    Route("/api/recipe/check", check, methods=["POST"]),
    Route("/api/recipe/cost", cost, methods=["POST"]),
    Route("/api/start", start, methods=["POST"]),
    Route("/api/stop", stop, methods=["POST"]),
    Route("/api/resume", resume, methods=["POST"]),
]
