"""The trend of a gain over size: by hand, by law, and simulated.

python tests/study/statistics/test_trends.py [STUDIES]   # prints the table of docs/statistics-long.md
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.metrics import ACCURACY, LOSS
from glassformer.study.statistics.trends import AtSize, Trend, power_law, slope_weights, trends_over_size

SIZES = (1_000_000, 10_000_000, 40_000_000)
TOKENS = np.random.default_rng(11).lognormal(5.0, 0.5, 60).round()
Rng = np.random.Generator


def one(sizes: list[AtSize], margin: float = 1e-9, **more) -> Trend:
    (found,) = trends_over_size({"c": sizes}, LOSS, margin, **more)
    return found


def world(
    rng: Rng,
    slope: float = 0.0,
    *,
    sizes: tuple[int, ...] = SIZES,
    seeds: int = 8,
    shared: float = 0.0,
    grows: float = 1.0,
    documents: float = 0.02,
    tails: Callable[[tuple[int, ...]], np.ndarray] | None = None,
) -> list[AtSize]:
    """Sizes whose true gain (loss, so minus the difference) has this slope per decade. ``shared``: the correlation of a seed's
    differences at two sizes; ``grows``: how much noisier the largest size is than the smallest."""
    draw = tails or rng.standard_normal
    common, items = draw((seeds, 1)), rng.standard_normal(len(TOKENS))
    found = []
    for at, size in enumerate(sizes):
        noise = 0.006 * grows ** (at / (len(sizes) - 1))
        own = np.sqrt(shared) * common + np.sqrt(1.0 - shared) * draw((seeds, 1))
        by_document = documents * (0.7 * items + 0.7 * rng.standard_normal(len(TOKENS)))
        rest = 0.03 * rng.standard_normal((seeds, len(TOKENS)))
        found.append(AtSize(size, -(0.05 + slope * np.log10(size / sizes[0])) + noise * own + by_document + rest))
    return found


class TestByHand:
    def test_the_slope_of_two_sizes_is_the_difference_over_the_decades(self):
        seeds = np.arange(7.0)[:, None] * 1e-3
        small, large = AtSize(1_000, -0.10 + seeds + [0.0, 0.0]), AtSize(100_000, -0.04 + seeds + [0.0, 0.0])
        found = one([small, large])
        assert found.per_decade.value == pytest.approx((0.04 - 0.10) / 2)
        assert found.over_range.value == pytest.approx(-0.06)
        assert (found.word, found.gains) == ("shrinks", pytest.approx((0.097, 0.037)))
        assert found.short == "gain shrinks"

    def test_of_a_change_that_is_worse_everywhere_the_gap_is_told(self):
        seeds = np.arange(7.0)[:, None] * 1e-3
        found = one([AtSize(1_000, 0.10 + seeds + [0.0, 0.0]), AtSize(100_000, 0.04 + seeds + [0.0, 0.0])])
        assert found.per_decade.value == pytest.approx((0.10 - 0.04) / 2)
        assert (found.word, found.short) == ("grows", "gap shrinks")
        assert found.to_dict()["short"] == "gap shrinks"

    def test_order_of_sizes_and_direction_of_the_metric(self):
        rng = np.random.default_rng(3)
        sizes = world(rng, 0.1)
        assert one(sizes[::-1]) == one(sizes)
        (up,) = trends_over_size({"c": sizes}, ACCURACY, 0.01)
        assert up.per_decade.value == pytest.approx(-one(sizes).per_decade.value)

    def test_weights_of_five_sizes_equal_least_squares(self):
        parameters, y = (10, 35, 90, 410, 1_700), np.array([3.0, 1.0, 4.0, 1.0, 5.0])
        assert slope_weights(parameters) @ y == pytest.approx(np.polyfit(np.log10(parameters), y, 1)[0])

    def test_a_law_of_five_sizes(self):
        parameters = np.array([1e6, 3e6, 1e7, 3e7, 1e8]).astype(int)
        noise = 1e-4 * np.array([-1.0, 1.0, 0.5, -0.5])
        values = [1.5 + 20.0 * size**-0.25 + noise for size in parameters]
        law = power_law("base", parameters.tolist(), values)
        assert law.exponent.low < 0.25 < law.exponent.high
        assert law.exponent.value == pytest.approx(0.25, rel=0.02)
        assert (law.floor, law.scale) == (pytest.approx(1.5, abs=0.02), pytest.approx(20.0, rel=0.2))
        assert law.fits


class TestWords:
    def test_the_four_words(self):
        rng = np.random.default_rng(5)
        assert one(world(rng, 0.05)).word == "grows"
        assert one(world(rng, -0.05)).word == "shrinks"
        assert one(world(rng, 0.0), margin=0.05).word == "no trend seen"
        assert one(world(rng, 0.0), margin=1e-4).word == "not known"

    def test_what_cannot_be_used(self):
        rng = np.random.default_rng(6)
        few = one(world(rng, 0.5, seeds=5))
        assert (few.word, few.p, few.per_decade.value) == ("not known", None, None)
        bad = world(rng, 0.5)
        bad[1] = AtSize(bad[1].parameters, bad[1].differences, problem="it diverged")
        assert one(bad).word == "not known"
        lost = world(rng, 0.5)
        lost[2].differences[3] = np.nan
        assert (one(lost).word, one(lost).gains) == ("not known", ())  # no NaN reaches JSON

    def test_changes_are_corrected_together(self):
        rng = np.random.default_rng(7)
        changes = {f"c{at}": world(rng) for at in range(4)}
        together = trends_over_size(changes, LOSS, 1e-9)
        alone = [one(sizes) for sizes in changes.values()]
        assert min(found.p_corrected for found in together) == pytest.approx(min(1.0, 4 * min(found.p for found in alone)))
        assert all(a.per_decade.half_width < b.per_decade.half_width for a, b in zip(alone, together))

    def test_tuning_widens(self):
        sizes = world(np.random.default_rng(8))
        tuned = [AtSize(one.parameters, one.differences, tuning_variance=1e-4) for one in sizes]
        assert one(tuned).per_decade.half_width > one(sizes).per_decade.half_width

    def test_one_size_is_no_trend(self):
        sizes = world(np.random.default_rng(9))
        with pytest.raises(ConfigError) as caught:
            one([sizes[0], sizes[0]])
        assert caught.value.reason == "sizes-too-few"

    def test_four_sizes_are_no_law(self):
        law = power_law("base", [1, 10, 100, 1000], [np.arange(3.0)] * 4)
        assert (law.exponent.value, law.fits) == (None, False)

    def test_another_shape_does_not_fit(self):
        parameters = [10**k for k in range(3, 9)]
        noise = 1e-4 * np.array([-1.0, 1.0, 0.5, -0.5])
        waves = [3.0 - 0.1 * k + 0.1 * (-1) ** k + noise for k in range(6)]
        assert not power_law("base", parameters, waves).fits


WORLDS: dict[str, Callable[[Rng], list[AtSize]]] = {
    "three sizes, 8 seeds": lambda rng: world(rng),
    "6 seeds": lambda rng: world(rng, seeds=6),
    "seeds correlated by .6 over sizes": lambda rng: world(rng, shared=0.6),
    "the largest size 5 times as noisy": lambda rng: world(rng, grows=5.0),
    "five sizes over two decades": lambda rng: world(rng, sizes=(10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8)),
    "documents matter more than seeds": lambda rng: world(rng, documents=0.1),
    "heavy tails (t, 3 df)": lambda rng: world(rng, tails=lambda shape: rng.standard_t(3, shape) / np.sqrt(3.0)),
}
LAW_SIZES = [10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8]


def coverage(name: str, studies: int) -> tuple[float, float]:
    """The share of studies whose interval holds the true slope of 0, and the share with a false word."""
    rng = np.random.default_rng([ord(letter) for letter in name])
    found = [one(WORLDS[name](rng), weights=TOKENS) for _ in range(studies)]
    covered = [trend.per_decade.low <= 0.0 <= trend.per_decade.high for trend in found]
    return float(np.mean(covered)), float(np.mean([trend.word in ("grows", "shrinks") for trend in found]))


def law_coverage(studies: int, exponent: float = 0.3, noise: float = 0.003) -> float:
    rng, hits = np.random.default_rng(21), 0
    for _ in range(studies):
        values = [1.5 + 30.0 * size**-exponent + noise * rng.standard_normal(6) for size in LAW_SIZES]
        law = power_law("base", LAW_SIZES, values).exponent
        hits += (law.low or 0.0) <= exponent <= (law.high or np.inf)
    return hits / studies


@pytest.mark.parametrize("name", list(WORLDS)[:2])
def test_coverage_of_a_few_studies(name):
    covered, false = coverage(name, 200)
    assert covered > 0.90
    assert false < 0.10


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_coverage(name):
    covered, false = coverage(name, 2000)
    assert 0.93 <= covered <= (1.0 if "tails" in name else 0.97)
    assert false <= 0.065


@pytest.mark.slow
def test_coverage_of_the_exponent():
    assert 0.93 <= law_coverage(2000) <= 0.97


if __name__ == "__main__":
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print("| world | interval covers % | false grows or shrinks % |\n|---|---|---|")
    for name in WORLDS:
        covered, false = coverage(name, studies)
        print(f"| {name} | {100 * covered:.1f} | {100 * false:.1f} |", flush=True)
    print(f"| exponent of a power law over five sizes, 6 seeds | {100 * law_coverage(studies):.1f} | |")
