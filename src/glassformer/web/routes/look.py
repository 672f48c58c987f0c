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
from glassformer.web.blocks import blocks_to_dicts
from glassformer.web.desk import Desk, desk_of
from glassformer.web.place import NotFound
from glassformer.web.replies import body, reply, text_of, word

if TYPE_CHECKING:
    from glassformer.lens.look import Look

MOST_KEPT = 6
"""The number of cached looks, for requests of their maps and readouts."""
TOP = 10
"""How many next tokens are shown."""


class Wanted(Config):
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
    desk, wanted = desk_of(request), Wanted.parse(await body(request))
    desk.place.run(wanted.run)
    document, kept = await desk.workshop.do(lambda: _look(desk, wanted))
    return reply({**document, "look": _keep(desk, kept)})


def _look(desk: Desk, wanted: Wanted) -> tuple[dict[str, Any], Kept]:
    from glassformer.lens.document import SCALE, quantised, view

    run = desk.workshop.run(desk.place.run(wanted.run))
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


def _heads(wanted: Wanted, seen: Look) -> list[tuple[int, int]]:
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


def _keep(desk: Desk, look: Kept) -> str:
    kept = desk.kept.setdefault("looks", (None, OrderedDict()))[1]
    name = secrets.token_urlsafe(9)
    kept[name] = look
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)
    return name


def _kept(desk: Desk, name: str) -> Kept:
    found = desk.kept.get("looks", (None, {}))[1].get(name)
    if not isinstance(found, Kept):
        raise NotFound("This look is gone; look again.")
    return found


async def maps(request: Request) -> Response:
    """The weights of all maps, a byte each, in the order layer, head, query, key; 255 times the root of a weight."""
    found = _kept(desk_of(request), word(request, "look")).maps
    if found is None:
        raise NotFound("This network forms no attention pattern.")
    return Response(found, media_type="application/octet-stream")


async def heads(request: Request) -> Response:
    """The table of heads: slower than the maps, since it needs further forward passes."""
    desk = desk_of(request)
    seen = _kept(desk, word(request, "look")).look

    def count() -> dict[str, Any]:
        from glassformer.lens.document import table

        return {"table": None if seen.no_attention else table(seen)}

    return reply(await desk.workshop.do(count))


async def readout(request: Request) -> Response:
    """One more readout of a look, as the reports draw it: ``effects`` of all heads, ``rollout``, or ``patching``."""
    desk, values = desk_of(request), await body(request)
    kept, kind = _kept(desk, text_of(values, "look")), text_of(values, "kind")
    other = text_of(values, "other", "")

    def draw() -> dict[str, Any]:
        from glassformer.web.readouts import READOUTS

        if kind not in READOUTS:
            raise UsageError(f"kind={kind!r} is no readout: choose {', '.join(READOUTS)}.")
        run = desk.workshop.run(desk.place.run(kept.run))
        return {"blocks": blocks_to_dicts(READOUTS[kind](run, kept.look, other))}

    return reply(await desk.workshop.do(draw))


ROUTES = [
    Route("/api/look", look, methods=["POST"]),
    Route("/api/look/maps", maps, methods=["GET"]),
    Route("/api/look/heads", heads, methods=["GET"]),
    Route("/api/look/readout", readout, methods=["POST"]),
]
