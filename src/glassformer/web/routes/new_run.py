"""New: recipes and their schema, live validation of a recipe, its cost; starting, stopping and resuming processes."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.data.reading.default_recipe import ENDINGS, is_text
from glassformer.foundation.config import Config
from glassformer.foundation.errors import RunError, UsageError
from glassformer.foundation.files import write_atomically
from glassformer.foundation.progress import duration
from glassformer.foundation.registry import Slot
from glassformer.runs.overview import progress_of
from glassformer.web.app_state import AppState, json_route, state_of
from glassformer.web.processes import stop_run
from glassformer.web.replies import received, reply, text_of

HIDDEN = ("about", "result")
"""Keys of a recipe that the form does not show."""
RUN = "run:"
"""A base that is a run's own recipe: ``run:NAME``."""
TEXT = "text:"
"""A base that is the recipe for a text or a table: ``text:PATH``, as ``train PATH`` chooses it."""
TEXTS = "texts"
"""The folder of uploaded texts."""
LARGEST_TEXT = 64 << 20
"""Bytes of an uploaded text; of a larger one give the path."""


class Form(Config):
    """The content of a form: base recipe, changes and, for a study, what is varied."""

    base: str
    set: dict[str, Any] = Field(default_factory=dict)
    vary: list[str] = Field(default_factory=list)
    seeds: int = 4
    timed: bool = False
    """For the cost: time a few steps on this machine, too."""
    name: str = ""


def recipes(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The JSON of ``glassformer recipes``."""
    from glassformer.recipe import list_recipes, list_variants
    from glassformer.study.planning.plan import list_studies

    return {"recipes": list_recipes(), "studies": list_studies(), "variants": list_variants()}


def schema(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The schema of recipes, and the values of the base."""
    from glassformer.recipe import load_recipe

    return {"schema": recipe_schema(), "recipe": load_recipe(_source(state, text_of(values, "base"))).to_dict()}


def recipe_schema() -> dict[str, Any]:
    """The recipe's types as a JSON schema for forms: ``{"about", "properties": {KEY: schema}, "required"}``.

    A slot has ``slot`` and ``variants`` by name, plugins included; pydantic makes the schema of the plain settings.
    """
    from glassformer.recipe import Recipe

    schema = config_schema(Recipe)
    schema["properties"] = {key: value for key, value in schema["properties"].items() if key not in HIDDEN}
    return schema


def config_schema(config: type[Config], depth: int = 0) -> dict[str, Any]:
    """The schema of one config, its sections and slots inside."""
    plain = _without_references(config)
    properties: dict[str, Any] = {}
    for name, field in config.model_fields.items():
        slot, inner = _slot_of(field), field.annotation
        if slot is not None and depth < 6:
            properties[name] = _of_slot(slot, field, depth)
        elif isinstance(inner, type) and issubclass(inner, Config):
            properties[name] = {**config_schema(inner, depth + 1), "type": "object"}
        else:
            properties[name] = plain.get(name, {})
        if not field.is_required() and "default" not in properties[name]:
            default = field.get_default(call_default_factory=True)
            properties[name]["default"] = default.to_dict() if isinstance(default, Config) else _jsonable(default)
    required = [name for name, field in config.model_fields.items() if field.is_required()]
    about = (config.__doc__ or "").strip().splitlines()
    return {
        "type": "object",
        "about": about[0].replace("``", "`") if about else "",
        "properties": properties,
        "required": required,
    }


def _of_slot(slot: Slot[Any], field: FieldInfo, depth: int) -> dict[str, Any]:
    variants = {name: config_schema(slot.get(name), depth + 1) for name in slot.names()}
    default = field.get_default(call_default_factory=True)
    return {"slot": slot.path, "about": slot.about, "variants": variants, "default": _jsonable(default)}


def _slot_of(field: FieldInfo) -> Slot[Any] | None:
    """The slot of a field, found by its parser."""
    for rule in field.metadata:
        owner = getattr(rule.func, "__self__", None) if isinstance(rule, BeforeValidator) else None
        if isinstance(owner, Slot):
            return owner
    return None


def _without_references(config: type[Config]) -> dict[str, Any]:
    """pydantic's schema of the plain fields; only the name where it cannot generate one."""
    try:
        document = config.model_json_schema(mode="validation")
    except Exception:  # a type without a JSON schema: the form shows a text field
        return {}
    return {name: dict(value) for name, value in document.get("properties", {}).items() if "$ref" not in str(value)}


def _jsonable(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Config):
        return value.to_dict()
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _jsonable(one) for key, one in value.items()}
    return str(value)


def _source(state: AppState, base: str) -> str:
    """The file of a built-in recipe, of a run in the folder, or a text; no other file is read for the page.

    A path and not a name, since a run in the folder may have the name of a recipe.
    """
    from glassformer.foundation.errors import UnknownName
    from glassformer.recipe import built_in_recipes

    if base.startswith(TEXT):
        return str(_text_at(state, base.removeprefix(TEXT)))
    if base.startswith(RUN):
        return str(state.folder.run(base.removeprefix(RUN)).recipe_file)
    built_in = built_in_recipes()
    if base not in built_in:
        raise UnknownName("The list of built-in recipes", base, built_in)
    return str(built_in[base])


def _text_at(state: AppState, path: str) -> Path:
    """A text or a table on this machine; a relative path is one inside the folder."""
    place = Path(path).expanduser()
    place = place if place.is_absolute() else state.folder.root / place
    if not Path(path).expanduser().is_absolute() and not state.folder.holds(place):
        raise UsageError(
            f"text:{path} leads out of the folder; give a path inside it, without .. and links, or an absolute path.",
            reason="outside-folder",
        )
    if not is_text(place):
        what = f"ends in one of {', '.join(ENDINGS)}" if place.is_file() else "is a file on this machine; check the path"
        raise UsageError(f"{path} is no text to train on: a text {what}.", reason="no-text")
    return place


async def upload(request: Request) -> Response:
    """Saves the text that was sent in FOLDER/texts, under the name in the address; another text keeps its name."""
    state, name = state_of(request), request.query_params.get("name", "").strip() or "text.txt"
    endings = re.search(r"(\.[A-Za-z0-9]+){1,2}$", name)  # of .csv.gz both
    if endings is None or not name.lower().endswith(ENDINGS):
        raise UsageError(f"{name} is no text to train on: its name must end in one of {', '.join(ENDINGS)}.", reason="no-text")
    content = await received(request, LARGEST_TEXT, f"; give the path of {name} on this machine instead")

    def write() -> str:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name[: endings.start()]).strip("-._")[:80] or "text"
        for number in itertools.count(1):
            file = state.folder.new(f"{TEXTS}/{stem}{f'-{number}' if number > 1 else ''}{endings[0]}", is_file=True)
            if not file.exists():
                write_atomically(file, content)
            elif file.read_bytes() != content:
                continue
            return str(file.relative_to(state.folder.root))
        raise AssertionError

    return reply({"path": await run_in_threadpool(write)})


def check(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """Whether the recipe is valid, with the messages of the command line; reads only the recipe."""
    from glassformer.recipe import load_recipe

    form = Form.parse(values)
    recipe = load_recipe(_source(state, form.base), form.set)
    changes = [one.name for one in _plan(state, form).changes] if form.vary else []
    return {"recipe": recipe.to_dict(), "fingerprint": recipe.fingerprint, "changes": changes}


def _plan(state: AppState, form: Form) -> Any:
    from glassformer.study.planning.planned_study import plan_studies

    return plan_studies(_source(state, form.base), form.vary, set=form.set, settings={"seeds": form.seeds})[0].plan


def cost(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """What ``train --dry-run`` prints; for a study, of all its runs."""
    from glassformer.recipe_cost import plan

    form = Form.parse(values)
    found = plan(_source(state, form.base), set=form.set, timed=form.timed)
    document: dict[str, Any] = {"plan": found.to_dict(), "facts": found.facts(), "runs": 1, "flops": found.flops}
    if form.vary:
        changes = _plan(state, form).changes
        flops = [plan(_source(state, form.base), set={**form.set, **one.set}).flops for one in changes]
        runs = form.seeds * (1 + len(changes))
        document |= {"runs": runs, "flops": form.seeds * (found.flops + sum(flops))}
    if found.seconds is not None and found.flops:  # runs of a study take as long as their FLOPs say, beside the timed one
        document["time"] = duration(found.seconds * document["flops"] / found.flops)
    return document


def start(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """Starts ``glassformer train`` or ``glassformer compare`` in the folder."""
    from glassformer.recipe import load_recipe

    form = Form.parse(values)
    folder, source = state.folder.new(form.name), _source(state, form.base)
    load_recipe(source, form.set)
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{form.name} is not empty; choose another name, or resume its run.")
    changes = [word for key, value in form.set.items() for word in ("--set", f"{key}={_in_yaml(value)}")]
    if not form.vary:
        return {"started": state.processes.start(form.name, "run", ["train", source, *changes, "--out", str(folder)])}
    _plan(state, form)
    varied = [word for one in form.vary for word in ("--vary", one)]
    words = ["compare", source, *varied, "--seeds", str(form.seeds), *changes, "--out", str(folder)]
    return {"started": state.processes.start(form.name, "study", words)}


def _in_yaml(value: Any) -> str:
    """JSON that is also valid YAML: surrogate escapes of an emoji would be two broken characters there."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)


def stop(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """Requests a run or a study to stop after its current step; it can be resumed."""
    name = text_of(values, "name")
    _stop(state, name)
    return {"stopped": name}


def _stop(state: AppState, name: str) -> None:
    known = state.processes.find(name)
    if known is not None and known["alive"]:
        state.processes.stop(name)
        return
    directory = state.folder.run(name)
    study = state.folder.study_of(directory)
    if study is not None:
        raise UsageError(f"{name} is a trial of the study {state.folder.name_of(study.root)}; stop the study.")
    progress = progress_of(directory)
    if progress["status"] != "running":
        raise RunError(f"{name} is not running: it is {progress['status']}.")
    stop_run(directory)


def resume(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """Resumes a stopped run or study; a finished run with more steps."""
    name, steps = text_of(values, "name"), values.get("steps")
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
        raise UsageError(f"steps={steps!r} must be a whole number of 1 or more.")
    return {"started": _resume(state, name, steps)}


def _resume(state: AppState, name: str, steps: int | None) -> dict[str, Any]:
    known = state.processes.find(name)
    if known is not None and known["kind"] == "study":
        study = state.folder.study(name)
        state.processes.wait(name)
        return state.processes.start(name, "study", ["compare", str(study.root)])
    directory = state.folder.run(name)
    if state.folder.study_of(directory) is not None:
        raise UsageError(f"{name} is a trial of a study; resume the study.")
    if progress_of(directory)["status"] == "running":
        raise RunError(f"{name} is running; stop it first.")
    state.processes.wait(name)  # it reported that it stopped, but may still be closing its files
    more = [] if steps is None else ["--set", f"training.steps={steps}"]
    words = ["train", str(directory.recipe_file), *more, "--out", str(directory.root), "--resume"]
    return state.processes.start(name, "run", words)


ROUTES = [
    Route("/api/upload", upload, methods=["POST"]),
    json_route("GET", "/api/recipes", recipes, worker=True),
    json_route("GET", "/api/recipe/schema", schema, worker=True),
    json_route("POST", "/api/recipe/check", check, worker=True),
    json_route("POST", "/api/recipe/cost", cost, worker=True),
    json_route("POST", "/api/start", start, worker=True),
    json_route("POST", "/api/stop", stop),
    json_route("POST", "/api/resume", resume),
]
