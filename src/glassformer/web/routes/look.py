"""Look: attention maps of a text as bytes, head ablation and its effect on the next token, further readouts."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.figures.attention import draw_effects, draw_map, draw_patching
from glassformer.foundation.config import Config
from glassformer.foundation.errors import UsageError
from glassformer.pages.page import Block, Cell, FigureBlock, Table
from glassformer.web.app_state import AppState, json_route, state_of
from glassformer.web.page_json import blocks_to_dicts
from glassformer.web.replies import text_of
from glassformer.web.served_folder import NotFound

if TYPE_CHECKING:
    from glassformer.lens.look import Look
    from glassformer.run import Run

MOST_LOOKS = 6
"""The number of cached looks, for requests of their maps and readouts."""
MOST_HEADS = 40
"""The most heads in the figure of effects: those with the largest."""
MOST_PLACES = 12
"""Places in the table of a patching."""
TOP = 10
"""How many next tokens are shown."""


class LookRequest(Config):
    """The request; names as in ``glassformer look``."""

    run: str
    text: str
    checkpoint: str | int = "last"
    hide: list[int] = Field(default_factory=list)
    without: list[list[int]] = Field(default_factory=list)
    """Heads to ablate, each ``[layer, head]``; unknown ones are ignored."""
    how: str = "zero"


@dataclass(frozen=True)
class CachedLook:
    """A look with its encoded maps; and the look without ablation, for later requests."""

    run: str
    look: Look
    maps: bytes | None


def look(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """``{"view", "scale"}`` as the drawing code of looks reads them, the next tokens before and now, and the look's name."""
    from glassformer.lens.page import SCALE, quantised, view

    options = LookRequest.parse(values)
    run = state.worker.run(state.folder.run(options.run))
    first = seen = run.look(options.text, checkpoint=options.checkpoint, hide=options.hide)
    document: dict[str, Any] = {"scale": SCALE, "before": None, "next": next_tokens(seen)}
    if options.without:
        document["before"] = document["next"]
        with ExitStack() as changes:
            for layer, head in _heads(options, seen):
                changes.enter_context(seen.without(layer, head, how=options.how))
            seen = seen.again()
        document["next"] = next_tokens(seen, [one["id"] for one in document["before"] or []])
    document["view"] = view(seen, whole=False)
    maps = None if seen.no_attention else quantised(seen.attention).tobytes()
    return {**document, "look": _cache(state, CachedLook(options.run, first, maps))}


def walk(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The forward pass of one token, step by step: the JSON of ``glassformer look --walk --json``."""
    from glassformer.lens.walk import walk as steps_of

    run, position = state.worker.run(state.folder.run(text_of(values, "run"))), values.get("position", -1)
    if not isinstance(position, int) or isinstance(position, bool):
        raise UsageError(f"position={position!r} must be a whole number.", reason="bad-position")
    return steps_of(run.look(text_of(values, "text")), position)


OPENING = 32
"""Tokens of the text that Look begins with, at most: a map of so many can be read."""
PLAIN_TEXT = "the cat sat on the mat and the cat ran to the mat"


def opening_text(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """A text to begin with: the beginning of the validation data, short enough for the model's context."""
    from glassformer.generation.texts import shortened

    run = state.worker.run(state.folder.run(text_of(values, "run")))
    most = min(OPENING, run.recipe.model.context)
    return {"text": run.opening_text(most) or shortened(PLAIN_TEXT, run.tokenizer, most) or PLAIN_TEXT[:1]}


def _heads(options: LookRequest, seen: Look) -> list[tuple[int, int]]:
    dims = seen.network.dims
    for head in options.without:
        if len(head) != 2 or min(head) < 0:
            raise UsageError(f"without={head!r} must be a layer and a head, counted from 0.")
    return [(layer, head) for layer, head in options.without if layer < dims.layers and head < dims.heads]


def next_tokens(seen: Look, also: list[int] | None = None) -> list[dict[str, Any]] | None:
    """The most probable next tokens; ``also``: further ones to show. None if the network predicts no next token."""
    if seen.losses is None:
        return None
    import torch

    chances = torch.as_tensor(seen.scores[-1]).double().softmax(-1)
    best = chances.topk(min(TOP, len(chances))).indices.tolist()
    shown = dict.fromkeys([*(also or []), *best])
    return [{"id": one, "token": seen.output_name(one), "probability": float(chances[one])} for one in shown]


def _cache(state: AppState, look: CachedLook) -> str:
    looks = state.cache.setdefault("looks", (None, OrderedDict()))[1]
    name = secrets.token_urlsafe(9)
    looks[name] = look
    while len(looks) > MOST_LOOKS:
        looks.popitem(last=False)
    return name


def _cached(state: AppState, name: str) -> CachedLook:
    found = state.cache.get("looks", (None, {}))[1].get(name)
    if not isinstance(found, CachedLook):
        raise NotFound("This look is gone; look again.")
    return found


async def maps(request: Request) -> Response:
    """The weights of all maps, a byte each, in the order layer, head, query, key; 255 times the root of a weight."""
    found = _cached(state_of(request), text_of(dict(request.query_params), "look")).maps
    if found is None:
        raise NotFound("This network forms no attention pattern.")
    return Response(found, media_type="application/octet-stream")


def heads(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The table of heads: slower than the maps, since it needs further forward passes."""
    from glassformer.lens.page import table

    seen = _cached(state, text_of(values, "look")).look
    return {"table": None if seen.no_attention else table(seen)}


def readout(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """One more readout of a look, as the reports draw it: ``effects`` of all heads, ``rollout``, or ``patching``."""
    seen, kind = _cached(state, text_of(values, "look")), text_of(values, "kind")
    if kind not in READOUTS:
        raise UsageError(f"kind={kind!r} is not a readout: choose {', '.join(READOUTS)}.", reason="unknown-readout")
    run = state.worker.run(state.folder.run(seen.run))
    return {"blocks": blocks_to_dicts(READOUTS[kind](run, seen.look, text_of(values, "other", "")))}


def effects(run: Run, look: Look, other: str) -> list[Block]:
    """The effect of ablating each head; with an interval over the lines of ``other``, if there are two or more."""
    lines = [line for line in other.splitlines() if line.strip()]
    found = look.effects([look.ids, *(run.look(line).ids for line in lines)] if lines else None)
    layers, heads, _ = found.by_text.shape
    named = {f"{layer}.{head}": found.of(layer, head) for layer in range(layers) for head in range(heads)}
    shown = sorted(named, key=lambda name: -abs(named[name].value or 0.0))[:MOST_HEADS]
    few = f" The {MOST_HEADS} that matter most of {len(named)}." if len(named) > MOST_HEADS else ""
    texts = "this text" if not lines else f"this text and {len(lines)} more"
    caption = f"Each head (layer.head) taken out in turn, its output set to zero: {found.unit}, on {texts}.{few}"
    figure = draw_effects({name: named[name] for name in shown}, unit=found.unit)
    alt = ", ".join(f"{name}: {named[name]}" for name in shown[:5])
    rows: list[list[Cell]] = [[name, named[name]] for name in shown]
    table = Table(["head", found.unit], rows, caption="The same in numbers, the largest effect first.")
    return [FigureBlock(figure, caption=caption, alt=f"Effects of heads, the largest first: {alt}"), table]


def rollout(run: Run, look: Look, other: str) -> list[Block]:
    """Attention rollout after the last layer."""
    weights = look.rollout()[-1]
    caption = (
        "Rollout: how much of each position (down) comes from each token (across) after the last layer; "
        "heads averaged, half of each layer is the residual connection."
    )
    return [FigureBlock(draw_map(weights, look.queries, look.keys), caption=caption, alt="Rollout through all layers")]


def patching(run: Run, look: Look, other: str) -> list[Block]:
    """Activation patching of the residual stream from another text, by layer and position."""
    if not other.strip():
        raise UsageError("Patching needs another text with equally many tokens; type one.", reason="no-other-text")
    source = run.look(other, model=look.network)
    target, instead = (int(one.scores[-1].argmax()) for one in (source, look))
    found = look.patching(source, target=target, instead=instead)
    caption = (
        f"At each place the residual stream of the other text is put into this one: 0 as here (`{look.output_name(instead)}` "
        f"comes next), 1 as there (`{look.output_name(target)}` comes next)."
    )
    names = [name.replace("blocks.", "layer ").replace(".after", "") for name in look.places.streams]
    figure = draw_patching(found, look.tokens, names)
    order = sorted(np.ndindex(found.shape), key=lambda at: -abs(float(found[at])))[:MOST_PLACES]
    rows: list[list[Cell]] = [[names[layer], f"{at} {look.tokens[at]}", f"{found[layer, at]:.3f}"] for layer, at in order]
    table = Table(["after", "position", "comes back"], rows, caption="The places with the largest effect.")
    return [FigureBlock(figure, caption=caption, alt="What comes back, by layer and position"), table]


READOUTS: dict[str, Callable[[Run, Look, str], list[Block]]] = {"effects": effects, "rollout": rollout, "patching": patching}


ROUTES = [
    json_route("POST", "/api/look", look, worker=True),
    json_route("POST", "/api/walk", walk, worker=True),
    json_route("GET", "/api/look/text", opening_text, worker=True),
    Route("/api/look/maps", maps, methods=["GET"]),
    json_route("GET", "/api/look/heads", heads, worker=True),
    json_route("POST", "/api/look/readout", readout, worker=True),
]
