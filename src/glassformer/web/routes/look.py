"""Look: attention maps of a text as bytes, head ablation and its effect on the next token, further readouts."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.foundation.config import Config
from glassformer.foundation.errors import UsageError
from glassformer.web.app_state import AppState, state_of
from glassformer.web.blocks import blocks_to_dicts
from glassformer.web.replies import body, reply, text_of, word
from glassformer.web.served_folder import NotFound

if TYPE_CHECKING:
    from glassformer.lens.look import Look

MOST_KEPT = 6
"""The number of cached looks, for requests of their maps and readouts."""
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
class Kept:
    """A look with its encoded maps; and the look without ablation, for later requests."""

    run: str
    look: Look
    maps: bytes | None


async def look(request: Request) -> Response:
    """``{"view", "scale"}`` as the drawing code of looks reads them, the next tokens before and now, and the look's name."""
    state, wanted = state_of(request), LookRequest.parse(await body(request))
    state.place.run(wanted.run)
    document, kept = await state.worker.do(lambda: _look(state, wanted))
    return reply({**document, "look": _keep(state, kept)})


def _look(state: AppState, wanted: LookRequest) -> tuple[dict[str, Any], Kept]:
    from glassformer.lens.page import SCALE, quantised, view

    run = state.worker.run(state.place.run(wanted.run))
    first = seen = run.look(wanted.text, checkpoint=wanted.checkpoint, hide=wanted.hide)
    document: dict[str, Any] = {"scale": SCALE, "before": None, "next": next_tokens(seen)}
    if wanted.without:
        document["before"] = document["next"]
        with ExitStack() as changes:
            for layer, head in _heads(wanted, seen):
                changes.enter_context(seen.without(layer, head, how=wanted.how))
            seen = seen.again()
        document["next"] = next_tokens(seen, [one["id"] for one in document["before"] or []])
    document["view"] = view(seen, whole=False)
    maps = None if seen.no_attention else quantised(seen.attention).tobytes()
    return document, Kept(wanted.run, first, maps)


def _heads(wanted: LookRequest, seen: Look) -> list[tuple[int, int]]:
    dims = seen.network.dims
    for head in wanted.without:
        if len(head) != 2 or min(head) < 0:
            raise UsageError(f"without={head!r} must be a layer and a head, counted from 0.")
    return [(layer, head) for layer, head in wanted.without if layer < dims.layers and head < dims.heads]


def next_tokens(seen: Look, also: list[int] | None = None) -> list[dict[str, Any]] | None:
    """The most probable next tokens; ``also``: further ones to show. None if the network predicts no next token."""
    if seen.losses is None:
        return None
    import torch

    chances = torch.as_tensor(seen.scores[-1]).double().softmax(-1)
    best = chances.topk(min(TOP, len(chances))).indices.tolist()
    shown = dict.fromkeys([*(also or []), *best])
    return [{"id": one, "token": seen.output_name(one), "probability": float(chances[one])} for one in shown]


def _keep(state: AppState, look: Kept) -> str:
    kept = state.kept.setdefault("looks", (None, OrderedDict()))[1]
    name = secrets.token_urlsafe(9)
    kept[name] = look
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)
    return name


def _kept(state: AppState, name: str) -> Kept:
    found = state.kept.get("looks", (None, {}))[1].get(name)
    if not isinstance(found, Kept):
        raise NotFound("This look is gone; look again.")
    return found


async def maps(request: Request) -> Response:
    """The weights of all maps, a byte each, in the order layer, head, query, key; 255 times the root of a weight."""
    found = _kept(state_of(request), word(request, "look")).maps
    if found is None:
        raise NotFound("This network forms no attention pattern.")
    return Response(found, media_type="application/octet-stream")


async def heads(request: Request) -> Response:
    """The table of heads: slower than the maps, since it needs further forward passes."""
    state = state_of(request)
    seen = _kept(state, word(request, "look")).look

    def count() -> dict[str, Any]:
        from glassformer.lens.page import table

        return {"table": None if seen.no_attention else table(seen)}

    return reply(await state.worker.do(count))


async def readout(request: Request) -> Response:
    """One more readout of a look, as the reports draw it: ``effects`` of all heads, ``rollout``, or ``patching``."""
    state, values = state_of(request), await body(request)
    kept, kind = _kept(state, text_of(values, "look")), text_of(values, "kind")
    other = text_of(values, "other", "")

    def draw() -> dict[str, Any]:
        from glassformer.web.readouts import READOUTS

        if kind not in READOUTS:
            raise UsageError(f"kind={kind!r} is no readout: choose {', '.join(READOUTS)}.")
        run = state.worker.run(state.place.run(kept.run))
        return {"blocks": blocks_to_dicts(READOUTS[kind](run, kept.look, other))}

    return reply(await state.worker.do(draw))


ROUTES = [
    Route("/api/look", look, methods=["POST"]),
    Route("/api/look/maps", maps, methods=["GET"]),
    Route("/api/look/heads", heads, methods=["GET"]),
    Route("/api/look/readout", readout, methods=["POST"]),
]
