"""bench/compare.py: what it runs is what it says; the ratio itself is measured on a quiet machine."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "bench" / "compare.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_compare", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_steps_follow_from_a_run_that_was_tried(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "alone", lambda steps, seed, out: (5.0, 2.0))  # 3 s of start-up, 40 steps in 2 s
    assert bench.find_steps(10.0, tmp_path) == 140
    assert bench.find_steps(1.0, tmp_path) == bench.TRYING


def test_the_ratio_is_of_sums(bench, monkeypatch):
    monkeypatch.setattr(bench, "alone", lambda steps, seed, out: (4.0 + seed, 1.0))
    monkeypatch.setattr(bench, "side_by_side", lambda steps, runs, folder: 6.6)
    result = bench.measure(3, 10.0, 50)
    assert result["seconds_each"] == [4.0, 5.0, 6.0]
    assert result["ratio"] == pytest.approx(0.44)


@pytest.mark.slow
def test_a_single_run_really_trains_and_measures(bench, tmp_path):
    whole, training = bench.alone(2, 7, tmp_path / "run")
    assert 0 < training < whole
    assert list((tmp_path / "run" / "evaluations").glob("validation-step-2.json"))
    assert "seed: 7" in (tmp_path / "run" / "recipe.yaml").read_text()
