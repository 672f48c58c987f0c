"""Matched model sizes: the feed-forward width that gives a change as many parameters, or FLOPs, as the baseline.

The feed-forward is adapted because every model has one, its cost is linear in its inner width, and changes of the mixer, the
positions or the merge are not affected. Sizes are counted on networks without numbers, so no width takes memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.foundation.errors import ConfigError
from glassformer.model.accounting import by_definition
from glassformer.model.config import ModelConfig, entries
from glassformer.model.network import NetworkConfig
from glassformer.model.transformer import Transformer
from glassformer.recipe import Recipe, changed

KEY = "model.feedforward.inner"
WIDEST = 64
"""The widest feed-forward that is tried, in widths of the model: a wider one is a mistake, and may not fit into memory."""
FAR = 0.01  # relative difference above which a size is not a match


def size_of(model: NetworkConfig, vocabulary: int, what: str, batch: int, outputs: int | None = None) -> int:
    """Parameters of the network, or FLOPs of one training step, as torch counts them."""
    if not isinstance(model, ModelConfig):
        raise ConfigError(
            f"match={what} adapts the feed-forward of a Transformer; model.kind={model.kind} has none to adapt.",
            reason="no-feedforward-to-match",
        )
    if what == "parameters":
        return sum(one.numel() for one in model.shapes(vocabulary, outputs=outputs).parameters())
    from torch._subclasses.fake_tensor import FakeTensorMode  # nothing is computed: compare ``accounting.activation_bytes``

    with FakeTensorMode():
        network = Transformer(model, vocabulary, outputs)
        with by_definition(network), FlopCounterMode(display=False) as counter:
            network(torch.zeros(1, model.context, dtype=torch.long)).float().logsumexp(-1).sum().backward()
    return batch * counter.get_total_flops()


def match(
    name: str, recipe: Recipe, vocabulary: int, what: str, target: int, outputs: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """The setting that gives ``recipe`` the ``target`` parameters or FLOPs, and a note; raises where no width comes close."""
    batch = recipe.training.batch_size

    def size(inner: int) -> int:
        return size_of(_with_inner(recipe, keys, inner, name, what).model, vocabulary, what, batch, outputs)

    now = size_of(recipe.model, vocabulary, what, batch, outputs)
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
    narrow, wide = recipe.model.width, 4 * recipe.model.width
    first = size(narrow)
    slope = (size(wide) - first) / (wide - narrow)
    inner = max(1, round(narrow + (target - first) / slope)) if slope > 0 else 1
    found = size(min(inner, WIDEST * recipe.model.width))
    rest = found / target - 1.0
    if abs(rest) > FAR and (inner == 1 or inner > WIDEST * recipe.model.width or slope <= 0):
        reason, most = ("too-large-to-match", "narrowest") if rest > 0 else ("too-small-to-match", "widest permitted")
        raise ConfigError(
            f"match={what}: {name} has {found:,} {what} even with the {most} feed-forward, and the baseline {target:,}; "
            "compare it without match, or change the baseline.",
            reason=reason,
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
