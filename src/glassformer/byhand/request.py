"""A mapping (from YAML, from the command line) -> the answer: a goal solved, a key replaced, attention calculated, ...

The one place where the words of a request meet the functions that answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from glassformer.byhand.calculator import attend_by_hand
from glassformer.byhand.explorations.base import all_explorations, explore, find
from glassformer.byhand.key_replacement import replace_key
from glassformer.byhand.problem import GOALS, as_matrix, as_vector, worked_keys
from glassformer.byhand.result import Result
from glassformer.byhand.solver import solve
from glassformer.foundation.config import Config
from glassformer.foundation.errors import ConfigError, DataError, UnknownName
from glassformer.foundation.yaml_text import parse_yaml

ABOUT_GOALS = {
    "select": "select 1: a query that returns the value of key 1",
    "identity": "identity: a query for every key, so that each value comes back in turn",
    "average": "average 1,2 (or: average all): equal weight on some keys, none on the others",
    "weights": "weights .5,.25,.25,0: any weights you like",
}


class Request(Config):
    """What a YAML file may say. Either a goal with keys, or ``explore`` with settings."""

    goal: Any = None
    keys: Any = None
    values: Any = None
    bound: Any = None
    scale: Any = None
    logits: Any = None
    replace: Any = None
    query: Any = None
    length: Any = None
    attend: bool = False
    mask: Any = None
    argmax: bool = False
    explore: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)


def read_request(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError("does not exist; check the path.", file=path, reason="missing-file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as text ({error}).", file=path, reason="not-text") from error
    values = parse_yaml(text, str(path))
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{path} must hold keys and values, for example 'goal: select 1' and 'keys: worked'.", reason="not-a-mapping"
        )
    return dict(values)


def answer(values: Mapping[str, Any], *, folder: Path | None = None) -> Result:
    """The result of a request; file names in it count from ``folder``."""
    request = Request.parse({key: value for key, value in values.items() if value is not None})
    if request.explore is not None:
        beside = [key for key in values if key not in ("explore", "settings") and values[key] is not None]
        if beside:
            raise ConfigError(
                f"{beside[0]} belongs to a goal, but {request.explore!r} is an exploration; give its settings with --set.",
                reason="goal-with-exploration",
            )
        return explore(request.explore, **request.settings)
    if request.settings:
        raise ConfigError(
            "settings (--set) belong to an exploration; a goal takes keys, values, bound, scale and so on.",
            reason="settings-with-goal",
        )
    if request.attend:
        return _attended(request, folder)
    for name in ("mask", "argmax"):
        if getattr(request, name):
            raise ConfigError(f"{name} belongs to `attend`, which only calculates; drop it.", reason="only-with-attend")
    if request.goal is None:
        raise ConfigError(f"goal is missing; use one of: {', '.join(GOALS)}.", reason="no-goal")
    if request.keys is None:
        raise ConfigError(
            "keys is missing; give rows such as '1,0;0,1', a .npy or .csv file, or the word 'worked'.", reason="no-keys"
        )
    return _solved(request, folder)


def _attended(request: Request, folder: Path | None) -> Result:
    for name in ("goal", "bound", "logits", "replace", "length"):
        if getattr(request, name) is not None:
            raise ConfigError(f"{name} belongs to a goal; `attend` only calculates. Drop it.", reason="goal-with-attend")
    missing = [name for name in ("query", "keys") if getattr(request, name) is None]
    if missing:
        raise ConfigError(
            f"{missing[0]} is missing; attend takes --query, --keys and mostly --values, each as rows such as '1,0;0,1'.",
            reason=f"no-{missing[0]}",
        )
    scale = 1.0 if request.scale is None else request.scale
    return attend_by_hand(
        request.query, request.keys, request.values, scale=scale, mask=request.mask, argmax=request.argmax, folder=folder
    )


def _solved(request: Request, folder: Path | None) -> Result:
    keys = request.keys if request.keys == "worked" else as_matrix("keys", request.keys, folder=folder)
    values = None if request.values is None else as_matrix("values", request.values, folder=folder)
    bound = 10.0 if request.bound is None else request.bound
    scale = 1.0 if request.scale is None else request.scale
    if request.replace is None:
        for name in ("query", "length"):
            if getattr(request, name) is not None:
                raise ConfigError(
                    f"{name} is given, but no key to replace; add 'replace' with the number of a key.", reason="no-replace"
                )
        return solve(keys, request.goal, values=values, bound=bound, scale=scale, logits=request.logits)
    if request.logits is not None:
        raise ConfigError(
            "logits cannot be used with replace, which does no least squares; drop one of them.", reason="logits-with-replace"
        )
    query = None if request.query is None else as_vector("query", request.query, folder=folder)
    return replace_key(
        keys, request.goal, request.replace, query=query, length=request.length, values=values, bound=bound, scale=scale
    )


def request_from_words(words: list[str]) -> tuple[dict[str, Any], Path | None]:
    """The words of a command -> a mapping and the folder its file names count from."""
    first = words[0]
    if first.lower().endswith((".yaml", ".yml")):
        if len(words) > 1:
            raise ConfigError(
                f"{words[1]!r} after the file {first} has no meaning: the file is the whole problem; drop it.",
                reason="words-after-file",
            )
        return read_request(Path(first)), Path(first).parent
    if first.lower() == "attend":
        if len(words) > 1:
            raise ConfigError(
                f"{words[1]!r} after 'attend': give numbers with --query, --keys and --values.", reason="words-after-attend"
            )
        return {"attend": True}, None
    if first.lower() in GOALS:
        return {"goal": " ".join(words)}, None
    names = [entry.name for entry in all_explorations()]
    if first not in names:
        raise UnknownName("byhand", first, ["attend", *GOALS, *names])
    if len(words) > 1:
        raise ConfigError(
            f"{words[1]!r} after {first!r}: give settings of an exploration with --set, for example --set n=8.",
            reason="words-after-exploration",
        )
    return {"explore": first}, None


def catalogue() -> dict[str, Any]:
    """Everything that can be asked: goals with an example, explorations with their question and settings."""
    return {
        "calculator": "attend, with --query, --keys and --values: scores, weights and output (--scale, --mask, --argmax)",
        "goals": [{"name": name, "about": ABOUT_GOALS[name]} for name in GOALS],
        "explorations": [
            {"name": entry.name, "question": entry.question, "settings": entry.settings} for entry in all_explorations()
        ],
    }


def task_of(request: Mapping[str, Any]) -> str:
    """The task alone, as a teacher hands it out: what is given and what is to find, and nothing of the answer."""
    if request.get("explore") is not None:
        name = request["explore"]
        entry = find(name)
        settings = {**entry.settings, **(request.get("settings") or {})}
        given = ", ".join(f"{key} = {value}" for key, value in settings.items())
        return f"Exercise ({name}). {entry.question}\nGiven: {given}.\nSay what you expect before you compute, and why."
    if request.get("attend"):
        raise ConfigError("attend only calculates, so it is no exercise; drop --exercise.", reason="attend-is-no-exercise")
    keys = request["keys"]
    rows = worked_keys() if keys == "worked" else as_matrix("keys", keys)
    table = "\n".join(
        f"  key {number} = ({', '.join(f'{x:g}' for x in row)})" for number, row in enumerate(rows.tolist(), start=1)
    )
    bound = request.get("bound") or 10
    asked = f"replace key {request['replace']} so that" if request.get("replace") is not None else "find a query q with which"
    return (
        f"Exercise. Attention over these keys, weights = softmax(q . k):\n{table}\n"
        f"With |q| at most {bound}, {asked} attention does this: {request['goal']}.\n"
        "If no query can do it exactly, say why, and how near one can come."
    )
