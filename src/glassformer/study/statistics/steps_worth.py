"""A gain -> how many more steps of the baseline it is worth, and what is left of it at equal time. Imports no torch.

The ruler is the baseline at several numbers of steps: whole runs (changes that set nothing but ``training.steps``), or else its
own learning curve from half of its steps on. In a schedule that decays, the curve falls faster at its end than longer
runs would, so by the curve a gain is worth fewer steps than by whole runs: the figure is then a cautious one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glassformer.foundation.distributions import Floats, t_upper
from glassformer.foundation.estimate import Estimate

CURVE_FROM = 0.5
"""The part of the baseline's own curve that is used begins at this share of its steps."""
FARTHEST = 1.0
"""Doublings of steps beyond the ruler's ends for which a figure is still given: a line through two or five points is trusted
no farther. The own curve ends at the baseline's steps, so by it every gain is such an extrapolation."""
BEYOND = "; the baseline's own curve does not show how many"
STEEP_ENOUGH = 3.0
"""The slope must be so many standard errors from 0; a flat baseline gains nothing from steps, and the ratio means nothing."""


@dataclass(frozen=True)
class Ruler:
    """The baseline's metric ``values[seed, point]`` at ``steps[point]`` (ascending), around its own ``at`` steps.

    ``whole_runs``: every point is a run of its own, with its own schedule; else they are points of the learning curve.
    """

    steps: tuple[int, ...]
    values: Floats
    at: int
    lower_is_better: bool = True
    whole_runs: bool = True

    @property
    def _doublings(self) -> Floats:
        return np.log2(np.asarray(self.steps, dtype=np.float64) / self.at)

    @cached_property
    def _slopes(self) -> Floats:
        """By seed, the gain of a doubling of steps (least squares)."""
        x = self._doublings - self._doublings.mean()
        sign = -1.0 if self.lower_is_better else 1.0
        return np.asarray(sign * self.values @ (x / (x @ x)))

    @property
    def per_doubling(self) -> float:
        """The gain of training the baseline for twice as many steps (least squares over the points)."""
        return float(self._slopes.mean())

    @property
    def _error(self) -> float:
        n = len(self._slopes)
        return float(self._slopes.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf

    @property
    def usable(self) -> bool:
        return len(self.steps) > 1 and self.per_doubling > STEEP_ENOUGH * self._error

    def doublings(self, gain: Estimate) -> Estimate:
        """log2 of the factor of steps that gives the baseline this ``gain`` (positive is better); 1 is twice the steps.

        The interval joins that of the gain and the noise of the ruler's slope.
        """
        if gain.value is None:
            return gain
        if not self.usable:
            return Estimate(None, reason="an unknown number of steps: the baseline's curve is too flat or too noisy to tell")
        value = gain.value / self.per_doubling
        low, high = float(self._doublings[0]) - FARTHEST, float(self._doublings[-1]) + FARTHEST
        if value > high:
            return Estimate(None, reason=f"more than {100 * (2**high - 1):.0f} % more steps{BEYOND}")
        if value < low:
            return Estimate(None, reason=f"less than {100 * 2**low:.0f} % of the steps{BEYOND}")
        if gain.half_width is None:
            return Estimate(value, n=gain.n)
        noise = float(t_upper(0.025, len(self._slopes) - 1)) * self._error * value
        half = math.hypot(gain.half_width, noise) / self.per_doubling
        return Estimate(value, value - half, value + half, gain.n)


@dataclass(frozen=True)
class StepsWorth:
    """``more_steps``: .12 means that the gain is worth 12 % more steps of the baseline. ``at_equal_time``: what is left of it
    when the baseline may train as long as the change took, by the tokens per second of these runs on this machine."""

    variant: str
    more_steps: Estimate
    at_equal_time: Estimate
    whole_runs: bool

    @property
    def short(self) -> str:
        """For a table: ``+12 %``; what lies beyond the ruler in words."""
        if self.more_steps.value is not None:
            return f"{100 * self.more_steps.value:+.0f} %"
        return (self.more_steps.reason or "").removesuffix(BEYOND) if BEYOND in (self.more_steps.reason or "") else ""

    @property
    def sentence(self) -> str:
        if self.more_steps.value is None:
            return f"{self.variant} is worth {self.more_steps.reason}."
        by = "runs of the baseline with other numbers of steps" if self.whole_runs else "the baseline's own curve"
        said = f"{self.variant} is worth {_percent(self.more_steps, 'steps')}, by {by}"
        if self.at_equal_time.value is not None:
            said += f"; at equal time {_percent(self.at_equal_time, 'steps')}"
        return f"{said}."

    def to_dict(self) -> dict[str, object]:
        return {
            "variant": self.variant,
            "more_steps": self.more_steps.to_dict(),
            "at_equal_time": self.at_equal_time.to_dict(),
            "short": self.short,
            "ruler": "whole runs" if self.whole_runs else "the baseline's curve",
            "sentence": self.sentence,
        }


def steps_worth(variant: str, gain: Estimate, ruler: Ruler, speed: float | None = None) -> StepsWorth:
    """The ``gain`` (positive is better) of a change in steps of the baseline.

    ``speed``: tokens per second of the change over the baseline's; None where it was not measured.
    """
    doublings = ruler.doublings(gain)
    at_equal_time = Estimate(None, reason="tokens per second were not measured")
    if speed and doublings.value is not None:
        at_equal_time = _as_share(doublings, math.log2(speed))
    return StepsWorth(variant, _as_share(doublings), at_equal_time, ruler.whole_runs)


def _as_share(doublings: Estimate, shift: float = 0.0) -> Estimate:
    """Doublings -> the share of steps that is added: 1 -> 1.0 (100 % more)."""
    if doublings.value is None:
        return doublings
    value, low, high = (
        None if end is None else 2.0 ** (end + shift) - 1.0 for end in (doublings.value, doublings.low, doublings.high)
    )
    return Estimate(value, low, high, doublings.n)


def _percent(share: Estimate, what: str) -> str:
    assert share.value is not None
    ends = "" if share.low is None or share.high is None else f" ({100 * share.low:+.0f} to {100 * share.high:+.0f} %)"
    return f"{100 * abs(share.value):.0f} % {'more' if share.value >= 0.0 else 'fewer'} {what}{ends}"


def curve_ruler(curves: Sequence[Mapping[int, float]], at: int, *, lower_is_better: bool = True) -> Ruler | None:
    """A ruler of the baseline's own curves, step -> value by seed; None with fewer than two shared steps in the second half."""
    shared = set.intersection(*(set(curve) for curve in curves)) if curves else set()
    steps = sorted(step for step in shared if CURVE_FROM * at <= step <= at)
    if len(steps) < 2:
        return None
    values = np.array([[curve[step] for step in steps] for curve in curves])
    return Ruler(tuple(steps), values, at, lower_is_better, whole_runs=False)
