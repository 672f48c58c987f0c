"""Shares by quarter of a count: equal counts stay together, nobody is lost."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np


def test_quarters_hold_everybody_once(monkeypatch):
    file = Path(__file__).parents[2] / "bench" / "exposure.py"
    spec = importlib.util.spec_from_file_location("bench_exposure", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_exposure", module)  # its dataclass looks itself up
    spec.loader.exec_module(module)
    counts, right = np.array([1, 1, 2, 3, 3, 3, 8, 9]), np.array([0, 0, 1, 1, 1, 0, 1, 1.0])
    rows = module.by_quarter(counts, right)
    assert sum(row["right"]["n"] for row in rows) == 8
    assert [row["low"] for row in rows] == sorted({row["low"] for row in rows})
    assert rows[0]["right"]["value"] < rows[-1]["right"]["value"]
    assert module.by_quarter(np.full(4, 7), np.ones(4))[0]["right"]["n"] == 4
