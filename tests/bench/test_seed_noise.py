"""bench/seed_noise.py: spreads by hand, and the noise of a study whose losses we know."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.stats

from glassformer.foundation.metrics import LOSS
from glassformer.study.statistics.evidence import Trials
from glassformer.study.statistics.verdict import Rules, decide

FILE = Path(__file__).parents[2] / "bench" / "seed_noise.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_seed_noise", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Known:
    """A study of made-up losses: luck shared by paired seeds, and some of each run's own."""

    def __init__(self, seeds: int) -> None:
        rng = np.random.default_rng(1)
        shared, documents = rng.normal(0, 0.03, (seeds, 1)), rng.normal(3, 0.2, (1, 40))
        values = [shared + documents + rng.normal(0, 0.01, (seeds, 1)) + rng.normal(0, 0.001, (seeds, 40)) for _ in range(2)]
        self._means = {"base": values[0].mean(axis=1), "x": values[1].mean(axis=1)}
        rules = Rules(looks=(seeds,), metric=LOSS, margin=0.01)
        self.verdicts = decide(Trials("base", values[0]), [Trials("x", values[1])], rules)
        self.folder = Path("made-up")

    def seed_values(self, name: str) -> np.ndarray:
        return self._means[name]


def test_a_spread_and_its_interval(bench: ModuleType) -> None:
    found = bench.spread(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert found["value"] == pytest.approx(2.5**0.5)
    assert found["low"] == pytest.approx((10.0 / scipy.stats.chi2.ppf(0.975, 4)) ** 0.5, rel=1e-9)
    assert found["high"] == pytest.approx((10.0 / scipy.stats.chi2.ppf(0.025, 4)) ** 0.5, rel=1e-9)


def test_noise_that_is_known_is_found(bench: ModuleType) -> None:
    found = bench.noise_of(Known(60))
    (row,) = found["changes"]
    assert found["base_sd"]["low"] < (0.03**2 + 0.01**2) ** 0.5 < found["base_sd"]["high"]
    assert row["paired_sd"]["low"] < 0.01 * 2**0.5 < row["paired_sd"]["high"]
    assert row["correlation"] == pytest.approx(0.9, abs=0.06)  # .03^2 / (.03^2 + .01^2)
    assert row["documents"] == 40
    assert row["document_share"] < 0.1
    text = bench.text_of([found])
    assert "made-up | x |" in text
    assert "over 1 baselines; correlation 0." in text


def test_few_seeds_say_nothing(bench: ModuleType) -> None:
    found = bench.noise_of(Known(3))
    assert found == {"study": "made-up", "base_sd": None, "changes": []}
    assert "Found" not in bench.text_of([found])
