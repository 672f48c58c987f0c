"""No false alarm: every honest combination of mixer, positions, merge and block passes the check (float64 and float32)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from glassformer.checks.check import check_model
from glassformer.model.config import ModelConfig
from glassformer.model.slots import BLOCKS, MERGES, MIXERS, POSITIONS
from glassformer.model.transformer import build_model

SIZES = {"width": 12, "heads": 3, "layers": 2, "context": 7, "dropout": 0.1}


def variants(slot: Any) -> list[dict[str, Any]]:
    """Every honest variant of a slot with every example of its settings."""
    return [
        {"kind": name, **settings} for name in slot.names() for settings in slot.get(name).examples if not slot.get(name).breaks
    ]


def pairs() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Mixers and positions that have an effect on each other."""
    every = itertools.product(variants(MIXERS), variants(POSITIONS))
    return [
        (mixer, at)
        for mixer, at in every
        if POSITIONS.get(at["kind"]).applies_to in MIXERS.get(mixer["kind"]).accepts_positions
    ]


def check(mixer: Any, positions: Any, merge: Any, block: Any) -> None:
    config = ModelConfig.parse({**SIZES, "mixer": mixer, "positions": positions, "merge": merge, "block": block})
    report = check_model(build_model(config, 11, seed=1))
    assert report.passed, f"{mixer} {positions} {merge} {block}\n{report}"
    assert report.notes == ()


def turns(chosen: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[tuple[Any, ...]]:
    """Each of these pairs of mixer and positions once, with all merges and blocks taking turns."""
    others = itertools.cycle(itertools.product(variants(MERGES), variants(BLOCKS)))
    return [(*pair, *other) for pair, other in zip(chosen, others)]


PLAIN = [(mixer, at) for mixer, at in pairs() if len(mixer) == len(at) == 1]
WITH_SETTINGS = [(mixer, at) for mixer, at in pairs() if (len(mixer) == 1) != (len(at) == 1)]


@pytest.mark.parametrize("parts", turns(PLAIN), ids=lambda parts: "-".join(part["kind"] for part in parts))
def test_honest_combination_passes(parts: tuple[Any, ...]) -> None:
    check(*parts)


@pytest.mark.slow
@pytest.mark.parametrize("parts", turns(WITH_SETTINGS), ids=str)
def test_every_setting_of_mixer_or_positions_passes(parts: tuple[Any, ...]) -> None:
    check(*parts)
