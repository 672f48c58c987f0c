"""Matched model sizes: the feed-forward width that gives a change as many parameters, or FLOPs, as the baseline.

The feed-forward is adapted because every model has one, its cost is linear in its inner width, and changes of the mixer, the
positions or the merge are not affected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.foundation.errors import ConfigError
from glassformer.model.accounting import parts_of
from glassformer.model.config import ModelConfig, entries
from glassformer.model.network import NetworkConfig
from glassformer.recipe import Recipe, changed

KEY = "model.feedforward.inner"
WIDEST = 1 << 20
FAR = 0.01  # relative difference above which the narrowest feed-forward is not a match


def size_of(model: NetworkConfig, vocabulary: int, what: str, batch: int) -> int:
    """Parameters, or FLOPs of one training step."""
    if not isinstance(model, ModelConfig):
        raise ConfigError(
            f"match={what} adapts the feed-forward of a Transformer; model.kind={model.kind} has none to adapt.",
            reason="no-feedforward-to-match",
        )
    parts = parts_of(model, vocabulary, batch=batch)
    if what == "parameters":
        return sum(part.parameters for part in parts)
    return sum(part.forward_flops + part.backward_flops for part in parts)


def match(name: str, recipe: Recipe, vocabulary: int, what: str, target: int) -> tuple[dict[str, Any], list[str]]:
    """The setting that gives ``recipe`` the ``target`` parameters or FLOPs, and a note; raises where no width comes close."""
    batch = recipe.training.batch_size

    def size(inner: int) -> int:
        return size_of(_with_inner(recipe, keys, inner, name, what).model, vocabulary, what, batch)

    now = size_of(recipe.model, vocabulary, what, batch)
    assert isinstance(recipe.model, ModelConfig)
    if now == target:
        return {}, []
    listed = len(entries(recipe.model.feedforward))
    keys = [KEY] if listed == 1 else [KEY.replace(".inner", f".{number}.inner") for number in range(listed)]
    if recipe.model.layers == 0:
        raise ConfigError(
            f"match={what}: {name} has no layers and so no feed-forward to adapt; compare it without match.",
            reason="no-layers-to-match",
        )
    inner = _nearest(size, target)
    found = size(inner)
    rest = found / target - 1.0
    if inner == 1 and rest > FAR:
        raise ConfigError(
            f"match={what}: {name} has {found:,} {what} even with the narrowest feed-forward, and the baseline {target:,}; "
            "compare it without match, or widen the baseline.",
            reason="too-large-to-match",
        )
    note = (
        f"{name}: {' and '.join(keys)} is set to {inner}, which gives {found:,} {what} against the baseline's {target:,} "
        f"({100 * rest:+.2f} %); without it there would be {now:,}."
    )
    return dict.fromkeys(keys, inner), [note]


def _with_inner(recipe: Recipe, keys: list[str], inner: int, name: str, what: str) -> Recipe:
    values: Mapping[str, Any] = recipe.to_dict()
    try:
        return Recipe.parse(changed(values, dict.fromkeys(keys, inner)))
    except ConfigError as error:
        assert isinstance(recipe.model, ModelConfig)
        kind = ", ".join(one.kind for one in entries(recipe.model.feedforward))
        raise ConfigError(
            f"match={what} adapts {KEY}, which the feed-forward {kind!r} of {name} does not have; compare it without match.",
            reason="no-width-to-match",
        ) from error


def _nearest(size: Any, target: int) -> int:
    """The inner width whose size is nearest to ``target``; the size grows with the width."""
    low, high = 1, 2
    while size(high) < target and high < WIDEST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) < target else (low, middle)
    return min((low, high), key=lambda inner: abs(size(inner) - target))
