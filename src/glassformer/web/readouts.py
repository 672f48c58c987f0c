"""A look -> blocks of a report: head ablation effects, attention rollout, activation patching."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from glassformer.figures.attention import draw_effects, draw_map, draw_patching
from glassformer.foundation.errors import UsageError
from glassformer.pages.page import Block, FigureBlock

if TYPE_CHECKING:
    from glassformer.lens.look import Look
    from glassformer.run import Run

MOST_HEADS = 40
"""The most heads in the figure of effects: those with the largest."""


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
    return [FigureBlock(figure, caption=caption, alt=f"Effects of heads, the largest first: {alt}")]


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
        raise UsageError("Patching needs another text of as many tokens; type one.")
    source = run.look(other, model=look.network)
    target, instead = (int(one.scores[-1].argmax()) for one in (source, look))
    found = look.patching(source, target=target, instead=instead)
    caption = (
        f"At each place the residual stream of the other text is put into this one: 0 as here (`{look.output_name(instead)}` "
        f"comes next), 1 as there (`{look.output_name(target)}` comes next)."
    )
    names = [name.replace("blocks.", "layer ").replace(".after", "") for name in look.places.streams]
    figure = draw_patching(found, look.tokens, names)
    return [FigureBlock(figure, caption=caption, alt="What comes back, by layer and position")]


READOUTS: dict[str, Callable[[Run, Look, str], list[Block]]] = {"effects": effects, "rollout": rollout, "patching": patching}
