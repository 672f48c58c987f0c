"""Every variant of the three slots is in the table, one change each, and leaky ones are marked."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from glassformer.model.slots import MERGES, MIXERS, POSITIONS


def test_every_variant_is_one_change(bench: ModuleType) -> None:
    changes = bench.changes_of("speeches-lm", {})
    assert changes[0] == {}
    assert len(changes) == 1 + sum(len(slot.names()) - 1 for slot in (MIXERS, POSITIONS, MERGES))
    assert {"model.positions": "rotary"} in changes
    assert {"model.mixer": "synthesizer"} in changes
    assert {"model.mixer": "average", "model.positions": "learned"} in changes  # a bias on scores has no effect there


def test_a_leaky_one_is_trained_and_marked(bench: ModuleType, tiny_file: Path) -> None:
    honest, leaky = (bench.measure(str(tiny_file), change, {}, 0) for change in ({}, {"model.merge": "reweight"}))
    assert (honest["tainted"], leaky["tainted"]) == (False, True)
    assert honest["perplexity"]["value"] < honest["untrained"]
    assert bench.row(leaky).startswith("| merge=reweight | ")
    assert "TAINTED" in bench.row(leaky)
    assert "TAINTED" not in bench.row(honest)
