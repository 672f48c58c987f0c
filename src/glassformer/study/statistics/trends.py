"""Differences at several model sizes -> whether a gain grows or shrinks with size, and from five sizes on a power law.

The path from values to word:

    d[j, s, i] = change - baseline              at size j, per seed s and document i; the same seeds and documents at every size
    x[j] = log10 parameters of the baseline     c[j] = (x[j] - mean x) / sum (x - mean x)^2
    slope[s, i] = -sum_j c[j] d[j, s, i]        the least-squares slope of the gain (plus where higher is better)
    interval and p of its mean                  two_way.py, as for a difference: crossed seeds and documents

The slope is formed inside each seed and document, so seeds and documents may go together over the sizes in any way, and every
size may have its own noise. The interval is of the least-squares slope over the sizes that were run. It says nothing about the
shape between them and nothing about larger models. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from glassformer.foundation.distributions import Floats, f_quantile, f_upper
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.planning.power import FEWEST_SEEDS
from glassformer.study.reporting import wording
from glassformer.study.statistics.corrections import ALPHA, holm
from glassformer.study.statistics.two_way import TwoWayEffects, two_way_effects

TrendWord = Literal["grows", "shrinks", "no trend seen", "not known"]
OPPOSITE = {"grows": "shrinks", "shrinks": "grows"}
FEWEST_SIZES = 2
FEWEST_FOR_A_LAW = 5  # three sizes determine the law's three numbers and leave nothing to test its form
EXPONENTS = (0.005, 3.0)  # the smallest and the largest that are tried


@dataclass(frozen=True)
class AtSize:
    """One change at one size: ``differences[seed, document]``, change minus baseline; seeds in the same order at every size.

    ``parameters``: of the baseline. ``tuning_variance``: what choosing settings adds to the variance of the mean (of change and
    baseline together). To get a trend in doublings of steps instead of nats, divide ``differences`` by ``Ruler.per_doubling``.
    """

    parameters: int
    differences: Floats
    tuning_variance: float = 0.0
    problem: str = ""
    """Why the differences cannot be used (the verdict is invalid, a run is missing)."""


@dataclass(frozen=True)
class Trend:
    """How the gain of one change depends on size; a gain is positive where the change is better.

    ``per_decade``: the gain added by ten times as many parameters. ``over_range``: from the smallest to the largest size.
    """

    variant: str
    word: TrendWord
    sentence: str
    per_decade: Estimate
    over_range: Estimate
    p: float | None
    p_corrected: float | None
    parameters: tuple[int, ...] = ()
    gains: tuple[float, ...] = ()
    """The mean gain at each size."""
    unit: str = ""
    reason: str = ""

    @property
    def short(self) -> str:
        """The word for a table. A change that is worse at every size has a gap, which shrinks where its gain grows."""
        if self.word not in OPPOSITE:
            return self.word
        return f"gap {OPPOSITE[self.word]}" if _is_worse(self.gains) else f"gain {self.word}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "variant": self.variant,
            "trend": self.word,
            "short": self.short,
            "sentence": self.sentence,
            "gain_per_decade": self.per_decade.to_dict(),
            "gain_over_range": self.over_range.to_dict(),
            "p": self.p,
            "p_corrected": self.p_corrected,
            "sizes": [{"parameters": size, "gain": gain} for size, gain in zip(self.parameters, self.gains)],
            "unit": self.unit,
            "reason": self.reason,
        }


def trends_over_size(
    changes: Mapping[str, Sequence[AtSize]],
    metric: Metric,
    margin: float,
    *,
    weights: Floats | None = None,
    blocks: bool = False,
    groups: Sequence[object] | None = None,
    alpha: float = ALPHA,
) -> list[Trend]:
    """One trend per change: each change at the same sizes, in any order, on the same documents.

    grows, shrinks: the gain does, p (Holm over the changes) at most alpha. no trend seen: any change of the gain from the
    smallest to the largest size is below the margin (two one-sided tests). not known: neither, or fewer than 6 seeds, or a
    size without usable results. Where sizes have different numbers of seeds, the first that all have are used.
    """
    slopes = {name: _slope(sizes, metric, weights, blocks, groups) for name, sizes in changes.items()}
    corrected = dict(zip(slopes, holm([1.0 if one.effects is None else one.effects.p for one in slopes.values()])))
    return [_trend(name, one, metric, margin, float(corrected[name]), alpha, len(changes)) for name, one in slopes.items()]


@dataclass(frozen=True)
class _Slope:
    effects: TwoWayEffects | None
    """The crossed effects of the slope; None where there is none, for ``reason``."""
    parameters: tuple[int, ...]
    gains: tuple[float, ...]
    reason: str = ""


def _slope(
    sizes: Sequence[AtSize], metric: Metric, weights: Floats | None, blocks: bool, groups: Sequence[object] | None
) -> _Slope:
    sizes = sorted(sizes, key=lambda one: one.parameters)
    parameters, sign = tuple(one.parameters for one in sizes), -1.0 if metric.lower_is_better else 1.0
    if len({*parameters}) < max(FEWEST_SIZES, len(parameters)):
        raise ConfigError(
            f"sizes: a trend needs at least {FEWEST_SIZES} sizes with different numbers of parameters, not "
            f"{', '.join(f'{one:,}' for one in parameters)}; change model.width or model.layers.",
            reason="sizes-too-few",
        )
    bad = next((one for one in sizes if one.problem or not len(one.differences)), None)
    seeds = min(len(one.differences) for one in sizes)
    if bad is not None:
        return _Slope(None, parameters, (), f"at {bad.parameters:,} parameters {bad.problem or 'nothing has run'}")
    d_JSI = np.stack([sign * one.differences[:seeds] for one in sizes])
    w = np.ones(d_JSI.shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    gains = tuple(float(one) for one in d_JSI.mean(axis=1) @ (w / w.sum()))
    if not np.isfinite(d_JSI).all():
        return _Slope(None, parameters, (), "a run is missing")
    if seeds < FEWEST_SEEDS:
        return _Slope(None, parameters, gains, f"only {seeds} seeds have run")
    c_J = slope_weights(parameters)
    known = groups if groups is not None and 1 < len(set(groups)) < len(groups) else None
    tuning = float(c_J**2 @ [one.tuning_variance for one in sizes])
    slope_SI = np.tensordot(c_J, d_JSI, axes=1)
    return _Slope(two_way_effects(slope_SI, w, blocks=blocks, groups=known, tuning_variance=tuning), parameters, gains)


def slope_weights(parameters: Sequence[int]) -> Floats:
    """c with slope = c @ y: the least-squares slope of y over log10 parameters."""
    x = np.log10(np.asarray(parameters, dtype=np.float64))
    x -= x.mean()
    return np.asarray(x / (x @ x))


def _is_worse(gains: Sequence[float]) -> bool:
    return bool(gains) and all(gain < 0.0 for gain in gains)


def _trend(name: str, slope: _Slope, metric: Metric, margin: float, p: float, alpha: float, count: int) -> Trend:
    if slope.effects is None:
        nothing, sentence = Estimate(None, reason=slope.reason), f"{name}: the trend over size is not known: {slope.reason}."
        return Trend(
            name, "not known", sentence, nothing, nothing, None, None, slope.parameters, slope.gains, metric.unit, slope.reason
        )
    decades = float(np.log10(slope.parameters[-1] / slope.parameters[0]))
    per_decade = slope.effects.estimate(1.0 - alpha / max(1, count))
    assert per_decade.value is not None
    assert per_decade.low is not None
    assert per_decade.high is not None
    over = Estimate(decades * per_decade.value, decades * per_decade.low, decades * per_decade.high, per_decade.n)
    word: TrendWord = "not known"
    if p <= alpha:
        word = "grows" if per_decade.value > 0.0 else "shrinks"
    elif slope.effects.p_same(margin / decades) <= alpha:
        word = "no trend seen"
    ends = [
        wording.amount(abs(gain), metric, over.half_width) + (" better" if gain > 0.0 else " worse")
        for gain in (slope.gains[0], slope.gains[-1])
    ]
    half = per_decade.half_width
    middle, low, high = (
        ("+" if end > 0.0 else "") + wording.scaled(end, metric, half)
        for end in (per_decade.value, per_decade.low, per_decade.high)
    )
    worse = _is_worse(slope.gains)
    what, gain = (f"gap of {name} to the baseline", "gain ") if worse else (f"gain of {name}", "")
    said = {
        "grows": "grows with size",
        "shrinks": "shrinks with size",
        "no trend seen": "shows no trend over size",
        "not known": "has no known trend over size",
    }[OPPOSITE.get(word, word) if worse else word]
    sentence = (
        f"The {what} {said}: {ends[0]} at {short_count(slope.parameters[0])} parameters, {ends[1]} at "
        f"{short_count(slope.parameters[-1])}; {gain}{middle} per tenfold parameters (95 % interval {low} to {high}), p "
        f"{wording.p_value(p)}, {len(slope.parameters)} sizes."
    )
    return Trend(name, word, sentence, per_decade, over, slope.effects.p, p, slope.parameters, slope.gains, metric.unit)


def short_count(count: float) -> str:
    """1,234,567 -> 1.2 M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return f"{count:.0f}"


@dataclass(frozen=True)
class PowerLaw:
    """loss = floor + scale * parameters^-exponent, of one variant; the interval is over seeds, on this text.

    ``fits``: the law was not refuted by the sizes (lack of fit against the noise of seeds, p above .05).
    """

    variant: str
    exponent: Estimate
    floor: float | None = None
    scale: float | None = None
    p_of_fit: float | None = None

    @property
    def fits(self) -> bool:
        return self.p_of_fit is not None and self.p_of_fit > ALPHA

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "exponent": self.exponent.to_dict(), "fits": self.fits}


def power_law(variant: str, parameters: Sequence[int], values: Sequence[Floats], confidence: float = 0.95) -> PowerLaw:
    """The law through ``values[size][seed]`` (a loss), by least squares weighted by the number of seeds.

    For each exponent floor and scale are linear. The interval holds the exponents whose residual exceeds the smallest by at
    most F(1, df) times the variance of seeds (profile likelihood); it has an open end where the largest or smallest exponent
    that is tried belongs to it. Below five sizes there is none: three determine the law.
    """
    if len(parameters) < FEWEST_FOR_A_LAW or min(len(one) for one in values) < 2:
        reason = f"a power law needs {FEWEST_FOR_A_LAW} sizes with 2 seeds or more, and there are {len(parameters)} sizes"
        return PowerLaw(variant, Estimate(None, reason=reason))
    from scipy.optimize import brentq, minimize_scalar

    n = np.array([len(one) for one in values], dtype=np.float64)
    y, df = np.array([one.mean() for one in values]), float((n - 1.0).sum())
    noise = float(sum(((one - one.mean()) ** 2).sum() for one in values)) / df
    if noise == 0.0:
        return PowerLaw(variant, Estimate(None, reason="the runs of a size do not differ, so the noise is unknown"))
    x = np.asarray(parameters, dtype=np.float64) / float(parameters[0])

    def fit(exponent: float) -> tuple[float, Floats]:
        """The sum of squared residuals, and floor and scale."""
        design = np.stack([np.ones_like(x), x**-exponent], axis=1) * np.sqrt(n)[:, None]
        found, *_ = np.linalg.lstsq(design, y * np.sqrt(n))
        return float(((design @ found - y * np.sqrt(n)) ** 2).sum()), found

    grid = np.geomspace(*EXPONENTS, 60)
    near = int(np.argmin([fit(one)[0] for one in grid]))
    around = float(grid[max(0, near - 1)]), float(grid[min(len(grid) - 1, near + 1)])
    best = float(minimize_scalar(lambda one: fit(one)[0], bounds=around, method="bounded").x)
    least, (floor, scale) = fit(best)
    limit = least + noise * f_quantile(confidence, 1.0, df)
    ends = [
        float(brentq(lambda one: fit(one)[0] - limit, *sorted((best, end)))) if fit(end)[0] > limit else None
        for end in EXPONENTS
    ]
    open_end = "the interval is open: these sizes do not fix the exponent" if None in ends else None
    p = float(f_upper(least / (len(x) - 3.0) / noise, len(x) - 3.0, df))
    exponent = Estimate(best, ends[0], ends[1], int(n.sum()), open_end)
    return PowerLaw(variant, exponent, float(floor), float(scale) * float(parameters[0]) ** best, p)
