"""A recipe over seeds: every metric's mean and interval, values by seed, and a second call that trains nothing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from glassformer.foundation.files import read_json


def test_each_metric_over_seeds(bench: ModuleType, tiny_file: Path, tmp_path: Path, unchecked: None) -> None:
    runs, file = tmp_path / "runs", tmp_path / "found.json"
    words = [str(tiny_file), "--seeds", "3", "--splits", "validation,test", "--runs", str(runs), "--set", "training.steps=4"]
    found = bench.main([*words, "--out", str(file)])
    assert read_json(file) == found
    assert found["set"] == {"training.steps": 4}
    loss = found["splits"]["validation"]["loss"]
    assert len(set(loss["by_seed"])) == 3
    assert loss["value"] == pytest.approx(np.mean(loss["by_seed"]))
    assert loss["high"] - loss["value"] == pytest.approx(4.303 * np.std(loss["by_seed"], ddof=1) / np.sqrt(3), rel=1e-3)
    assert found["splits"]["test"]["loss"]["value"] != loss["value"]
    weights = {one: one.read_bytes() for one in runs.rglob("*.safetensors")}
    again = bench.main([*words, "--out", str(tmp_path / "again.json")])
    assert again["splits"] == found["splits"]
    assert {one: one.read_bytes() for one in runs.rglob("*.safetensors")} == weights
