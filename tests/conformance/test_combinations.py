"""No false alarm and no crash: choices of every two slots meet, in milliseconds; all crossings (the whole check) are slow."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from glassformer.checks.check import check_model
from glassformer.checks.conformance import SIZES, VariantExample, check_together
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.registry import Slot
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

AXES = ("positions", "mixer", "merge", "norm", "feedforward", "block", "stack", "head")


def variants(axis: str) -> list[dict[str, Any]]:
    """Every honest variant of a slot with the first example of its settings; heads that score tokens. (Every example of each is
    paired in the conformance suite.)"""
    slot = Slot.every[f"model.{axis}"]
    kinds = [(name, slot.get(name)) for name in slot.names()]
    return [
        {"kind": name, **settings}
        for name, config in kinds
        for settings in config.examples[:1]
        if not config.breaks and not getattr(config, "pools", False)
    ]


CHOICES = {axis: variants(axis) for axis in AXES}


def config_of(choices: dict[str, Any]) -> ModelConfig:
    """A mixer that borrows keys stands behind one that lends them."""
    mixer = choices.get("mixer", {"kind": "dot"})
    borrows = Slot.every["model.mixer"].get(mixer["kind"]).borrows_keys
    return ModelConfig.parse({**SIZES, "dropout": 0.1, **choices, "mixer": ["dot", mixer] if borrows else mixer})


def fits(choices: dict[str, Any]) -> bool:
    try:
        config_of(choices)
    except ConfigError:
        return False
    return True


@functools.cache
def pairwise() -> list[dict[str, Any]]:
    """Rows of choices in which every two that fit meet at least once, found greedily."""
    waiting = {
        (one, i, other, j)
        for one, other in itertools.combinations(AXES, 2)
        for i, j in itertools.product(range(len(CHOICES[one])), range(len(CHOICES[other])))
        if fits(
            {one: CHOICES[one][i], other: CHOICES[other][j]} | ({} if "positions" in (one, other) else {"positions": "none"})
        )
    }
    rows = []
    while waiting:
        one, i, other, j = min(waiting)
        row = {one: i, other: j}
        for axis in AXES:
            if axis not in row:
                known = {name: CHOICES[name][at] for name, at in row.items()}
                usable = [at for at, choice in enumerate(CHOICES[axis]) if fits({"positions": "none", **known, axis: choice})]
                row[axis] = max(usable, key=lambda at, axis=axis: len(waiting & met({**row, axis: at})))
        waiting -= met(row)
        rows.append({axis: CHOICES[axis][row[axis]] for axis in AXES})
    return rows


def met(row: dict[str, int]) -> set[tuple[str, int, str, int]]:
    known = [axis for axis in AXES if axis in row]
    return {(one, row[one], other, row[other]) for one, other in itertools.combinations(known, 2)}


def example(choices: dict[str, Any]) -> VariantExample:
    mixer = dict(choices["mixer"])
    beside = {axis: choice for axis, choice in choices.items() if axis != "mixer"}
    return VariantExample("model.mixer", mixer.pop("kind"), mixer, beside=beside)


@pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
def test_every_two_choices_meet(causal: bool) -> None:
    rows = pairwise()
    assert len(rows) >= max(len(one) * len(other) for one, other in itertools.combinations(CHOICES.values(), 2)) / 2
    for row in rows if causal else rows[::2]:
        if causal or row["head"]["kind"] != "ahead":  # which has nothing to predict where all tokens are seen
            check_together(replace(example(row), causal=causal))


PAIRS = [
    (mixer, positions)
    for mixer, positions in itertools.product(CHOICES["mixer"], CHOICES["positions"])
    if fits({"mixer": mixer, "positions": positions})
]
MERGES_AND_BLOCKS = list(itertools.product(CHOICES["merge"], CHOICES["block"]))
OTHERS = [
    dict(zip(("norm", "feedforward", "stack", "head"), rest))
    for rest in itertools.product(*(CHOICES[axis] for axis in ("norm", "feedforward", "stack", "head")))
]
STRIDE = next(odd for odd in itertools.count(1001, 2) if math.gcd(odd, len(OTHERS)) == 1)


@pytest.mark.slow
@pytest.mark.parametrize("pair", range(len(PAIRS)), ids=lambda at: " x ".join(one["kind"] for one in PAIRS[at]))
def test_all_crossings(pair: int, record_property: Callable[[str, object], None]) -> None:
    """Each mixer and position that fit with all merges and blocks, by the whole check; the other slots take turns, from test to
    test, through all of their combinations."""
    mixer, positions = PAIRS[pair]
    turns = itertools.count(pair * len(MERGES_AND_BLOCKS))
    checked = 0
    for merge, block in MERGES_AND_BLOCKS:
        row = {"mixer": mixer, "positions": positions, "merge": merge, "block": block}
        if fits(row):
            others = (OTHERS[turn * STRIDE % len(OTHERS)] for turn in itertools.islice(turns, len(OTHERS)))
            row |= next(rest for rest in others if fits({**row, **rest}))
            report = check_model(build_model(config_of(row), 11, seed=1))
            assert report.passed, f"{row}\n{report}"
            assert report.notes == ()
            checked += 1
    assert checked
    record_property("models", checked)
