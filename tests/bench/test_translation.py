"""bench/translation.py in short form: seeds with their translations, settings that name existing keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.bench_scripts import load_script

from glassformer.recipe import load_recipe


def test_seeds_and_their_file(tmp_path: Path) -> None:
    script = load_script("translation")
    small = [
        "data.set.pairs=40",
        "data.set.held_out=6",
        "data.set.length=3",
        "training.steps=2",
        "model.width=16",
        "model.layers=1",
    ]
    words = ["seeds", "numbers-in-words", "--seeds", "1", "--split", "validation", "--out", str(tmp_path / "s.json")]
    script.main([*words, *(word for one in small for word in ("--set", one))])
    run = json.loads((tmp_path / "s.json").read_text())["runs"]["seed 1"]
    assert len(run["translations"]) == len(run["references"]) == 6
    assert run["metrics"]["bleu"]["n"] == 6
    assert set(run["baselines"]) == {"copy", "frequent", "nearest", "untrained"}


@pytest.mark.parametrize("name", load_script("translation").SETTINGS)
def test_settings_are_recipes(name: str) -> None:
    load_recipe("multi30k", load_script("translation").SETTINGS[name])
