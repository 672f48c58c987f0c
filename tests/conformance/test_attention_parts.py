"""The parts of softmax attention crossed with each other, with kv heads, windows and positions: laws and both paths."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from glassformer.checks.check import check_model
from glassformer.checks.conformance import ATTENTION_SLOTS, VariantExample, check_fast_path, check_flop_count, check_together
from glassformer.foundation.registry import Slot
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

SIZES = {"width": 12, "heads": 3, "layers": 2, "context": 7}
INSIDE = {slot.rpartition(".")[2]: Slot.every[slot] for slot in ATTENTION_SLOTS}
AXES: dict[str, list[Any]] = {
    **{
        key: [{"kind": name, **settings} for name in slot.names() for settings in slot.get(name).examples]
        for key, slot in INSIDE.items()
    },
    "kv_heads": [None, 1],
    "window": [None, 3],
    "positions": ["none", "rotary", "alibi", {"kind": "rotary", "fraction": 0.5}],
}


def pairwise() -> list[dict[str, Any]]:
    """Rows in which every two choices of different axes meet at least once, found greedily."""
    wanted = {
        ((one, i), (other, j))
        for one, other in itertools.combinations(AXES, 2)
        for i in range(len(AXES[one]))
        for j in range(len(AXES[other]))
    }
    rows = []
    while wanted:
        (one, i), (other, j) = min(wanted)
        row = {one: i, other: j}
        for axis in AXES:
            if axis not in row:
                row[axis] = max(
                    range(len(AXES[axis])),
                    key=lambda choice, axis=axis: sum(pair in wanted for pair in pairs({**row, axis: choice})),
                )
        wanted -= pairs(row)
        rows.append({axis: AXES[axis][row[axis]] for axis in AXES})
    return rows


def pairs(row: dict[str, int]) -> set[Any]:
    ordered = [(axis, row[axis]) for axis in AXES if axis in row]
    return set(itertools.combinations(ordered, 2))


def config_of(row: dict[str, Any], *, causal: bool = True) -> ModelConfig:
    mixer = {"kind": "dot", **{axis: choice for axis, choice in row.items() if axis != "positions"}}
    return ModelConfig.parse({**SIZES, "mixer": mixer, "positions": row["positions"], "causal": causal})


@pytest.mark.parametrize("row", pairwise(), ids=str)
def test_two_parts_at_a_time(row: dict[str, Any]) -> None:
    """The laws in their quick form; the whole check is in the crossings below, and where a factor is made from the context: the
    quick form wants the scores that a longer context gives."""
    mixer = {axis: choice for axis, choice in row.items() if axis != "positions"}
    example = VariantExample("model.mixer", "dot", mixer, beside={"positions": row["positions"]})
    if row["qk"] == {"kind": "l2", "learned": False}:
        report = check_model(build_model(config_of(row), 11, seed=1))
        assert report.passed, f"{row}\n{report}"
    else:
        check_together(example)
    for requirement in (check_fast_path, check_flop_count):
        requirement(example)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
def test_all_crossings_of_the_four_slots(causal: bool) -> None:
    """Each with kv heads, windows and positions taking turns."""
    inside, around = ([axis for axis in AXES if (axis in INSIDE) is wanted] for wanted in (True, False))
    turns = itertools.cycle(itertools.product(*(AXES[axis] for axis in around)))
    for choices, others in zip(itertools.product(*(AXES[axis] for axis in inside)), turns):
        row = dict(zip((*inside, *around), (*choices, *others)))
        report = check_model(build_model(config_of(row, causal=causal), 11, seed=1))
        assert report.passed, f"{row}\n{report}"
