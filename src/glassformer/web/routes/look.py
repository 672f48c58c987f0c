"""Look: a text seen from inside a run; maps as bytes for the screen; heads taken out and what the network then says next."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from contextlib import ExitStack
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.foundation.config import Config
from glassformer.foundation.errors import UsageError
from glassformer.web.desk import Desk, desk_of
from glassformer.web.place import NotFound
from glassformer.web.replies import body, reply, word

MOST_KEPT = 8
"""Looks whose maps wait to be fetched."""
TOP = 10
"""How many next tokens are shown."""


class Wanted(Config):
    """What the page may ask for; the words are those of ``glassformer look``."""

    run: str
    text: str
    checkpoint: str | int = "last"
    hide: list[int] = Field(default_factory=list)
    without: list[list[int]] = Field(default_factory=list)
    """Heads to take out, each ``[layer, head]``."""
    how: str = "zero"
    scores: bool = False
    """Also what each head does: slower, since other texts are read for it."""


async def look(request: Request) -> Response:
    """Tokens, losses, the next tokens' probabilities, the shape of the maps, and the name under which they wait."""
    desk, wanted = desk_of(request), Wanted.parse(await body(request))
    desk.place.run(wanted.run)
    document, maps = await desk.workshop.do(lambda: _look(desk, wanted))
    document["maps"] = None if maps is None else _keep(desk, maps)
    return reply(document)


def _look(desk: Desk, wanted: Wanted) -> tuple[dict[str, Any], bytes | None]:
    import numpy as np

    from glassformer.lens.interventions import ablated

    run = desk.workshop.run(desk.place.run(wanted.run))
    seen = run.look(wanted.text, checkpoint=wanted.checkpoint, hide=wanted.hide)
    document: dict[str, Any] = {"before": None, "next": next_tokens(seen)}
    if wanted.without:
        document["before"] = document["next"]
        with ExitStack() as changes:
            for head in wanted.without:
                if len(head) != 2:
                    raise UsageError(f"without={head!r} must be a layer and a head.")
                changes.enter_context(ablated(seen.places, layer=head[0], head=head[1], how=wanted.how))
            seen = run.look(wanted.text, hide=wanted.hide, model=seen.network)
            document["next"] = next_tokens(seen, [one["id"] for one in document["before"] or []])
    losses = seen.losses
    document |= {
        "tokens": seen.queries,
        "losses": None if losses is None else [None if np.isnan(nats) else float(nats) for nats in losses],
        "no_attention": seen.no_attention,
        "name": seen.name,
    }
    if seen.no_attention:
        return {**document, "shape": [0, 0, 0, 0], "keys": seen.queries, "heads": []}, None
    attention = seen.attention
    document |= {"shape": list(attention.shape), "keys": seen.keys, "faults": seen.faults}
    document["heads"] = seen.head_table() if wanted.scores else []
    return document, np.round(attention * 255).astype(np.uint8).tobytes()


def next_tokens(seen: Any, also: list[int] | None = None) -> list[dict[str, Any]] | None:
    """The most probable tokens after the text; ``also``: those to show besides. None where no next token is predicted."""
    if seen.losses is None:
        return None
    import torch

    chances = torch.as_tensor(seen.scores[-1]).double().softmax(-1)
    best = chances.topk(min(TOP, len(chances))).indices.tolist()
    tokenizer = seen.tokenizer
    return [
        {
            "id": one,
            "token": tokenizer.token_text(one) if one < tokenizer.size else f"#{one}",
            "probability": float(chances[one]),
        }
        for one in dict.fromkeys([*(also or []), *best])
    ]


def _keep(desk: Desk, maps: bytes) -> str:
    """Puts maps where they can be fetched once the page has room for them."""
    kept = desk.kept.setdefault("maps", (None, OrderedDict()))[1]
    name = secrets.token_urlsafe(9)
    kept[name] = maps
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)
    return name


async def maps(request: Request) -> Response:
    """The weights of all maps, a byte each, in the order layer, head, query, key; 255 is a weight of one."""
    kept = desk_of(request).kept.get("maps", (None, {}))[1]
    found = kept.get(word(request, "maps"))
    if found is None:
        raise NotFound("These maps are gone; look again.")
    return Response(found, media_type="application/octet-stream")


ROUTES = [
    Route("/api/look", look, methods=["POST"]),
    Route("/api/look/maps", maps, methods=["GET"]),
]
