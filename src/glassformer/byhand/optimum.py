"""Convex problems of attention: the direction with the widest margin, and the query whose weights are nearest to a goal.

**Widest margin.** The distance from the origin to the convex hull of the differences (member minus other), seen in the space
where the members tie. The nearest point of the hull proves it from above, the direction from below; both are returned.
Whether a margin exists at all is decided in certificate.py, without rounding.

**Nearest weights.** The smallest KL from goal to weights over all y with |y| <= bound. Newton steps, each minimising the
quadratic model over the whole ball, never going uphill; our own code, because solvers of scipy stop digits earlier than the
proof needs: by convexity no point of the ball lies more than ``gap`` = g.y + bound |g| below y (g the gradient at y).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.byhand.problem import Array
from glassformer.byhand.softmax import excess_from_scores, kl_from_scores

ROUNDING = 1e-10  # lengths below this share of the keys' own spread count as zero
MAX_STEPS = 400


@dataclass(frozen=True)
class Margin:
    """``direction`` has length 1. Members lead by ``low``; no direction of length 1 leads by more than ``high``."""

    direction: Array
    low: float
    high: float
    mixture: Array  # of the other keys, >= 0 and with sum 1: the point of their hull that proves ``high``


def spread(keys: Array) -> float:
    """The largest distance of a key from their mean: the unit in which something is small or not."""
    return float(np.linalg.norm(keys - keys.mean(axis=0), axis=1).max())


def row_space(rows: Array, unit: float) -> Array:
    """Orthonormal rows that span ``rows``, leaving out what is rounding next to ``unit``."""
    if unit == 0.0:
        return np.zeros((0, rows.shape[1]))
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[sizes > ROUNDING * unit])


def widest_margin(keys: Array, members: list[int]) -> Margin:
    """The widest margin; zero (with a zero direction) where it is rounding. Needs a key outside ``members``."""
    outside = [j for j in range(len(keys)) if j not in set(members)]
    unit = spread(keys)
    centre = keys[members].mean(axis=0)
    ties = row_space(keys[members] - centre, unit)
    gaps = centre - keys[outside]
    gaps = gaps - (gaps @ ties.T) @ ties
    if unit == 0.0:
        return Margin(np.zeros(keys.shape[1]), 0.0, 0.0, np.full(len(outside), 1.0 / len(outside)))
    mixture = nearest_mixture(gaps / unit)
    nearest = mixture @ gaps
    high = float(np.linalg.norm(nearest))
    if high <= ROUNDING * unit:
        return Margin(np.zeros(keys.shape[1]), 0.0, high, mixture)
    direction = nearest / high
    direction = direction - (direction @ ties.T) @ ties  # once more: what rounding put back along the ties
    direction /= np.linalg.norm(direction)
    low = float((gaps @ direction).min())
    return Margin(direction, low, max(low, high), mixture)


def nearest_mixture(points: Array) -> Array:
    """Weights >= 0 with sum 1 of the point nearest to the origin in the convex hull of the rows.

    Lawson and Hanson's reduction of least distance to non-negative least squares: one more row of ones asks for sum 1,
    and the solution is the mixture times a positive number.
    """
    from scipy.optimize import nnls

    amounts, _ = nnls(np.vstack([points.T, np.ones(len(points))]), np.append(np.zeros(points.shape[1]), 1.0))
    return np.asarray(amounts / amounts.sum())


@dataclass(frozen=True)
class Nearest:
    """``kl`` is at most ``gap`` above the smallest in the ball."""

    y: Array
    kl: float
    gap: float


@dataclass(frozen=True)
class Softmax:
    """Weights softmax(slopes @ y + offsets), seen from a goal: KL, its gradient and curvature, exact when nearly 0."""

    slopes: Array
    offsets: Array
    goal: Array

    def kl(self, y: Array) -> float:
        return kl_from_scores(self.slopes @ y + self.offsets, self.goal)

    def excess(self, y: Array) -> Array:
        """weights - goal, each entry accurate even where both nearly agree."""
        return excess_from_scores(self.slopes @ y + self.offsets, self.goal)

    def gradient(self, y: Array) -> Array:
        return np.asarray((self.slopes - self.goal @ self.slopes).T @ self.excess(y))

    def curvature(self, y: Array) -> Array:
        """The covariance of the slopes under the weights, taken around the goal's mean so that nothing cancels."""
        excess = self.excess(y)
        around = self.slopes - self.goal @ self.slopes
        around = around - around.T @ excess
        return np.asarray((around * (self.goal + excess)[:, None]).T @ around)


def gap_in_ball(y: Array, gradient: Array, bound: float) -> float:
    """How far below y any point with length <= bound can lie, by convexity alone."""
    return max(0.0, float(gradient @ y + bound * np.linalg.norm(gradient)))


def nearest_in_ball(softmax: Softmax, bound: float, starts: Sequence[Array] = ()) -> Nearest:
    """The best y in the ball, starting from the best of ``starts`` and 0; the answer is never worse than any of them."""
    width = softmax.slopes.shape[1]
    candidates = [np.zeros(width), *(_into_ball(start, bound) for start in starts)]
    y = min(candidates, key=softmax.kl)
    kl, gradient, steps = softmax.kl(y), softmax.gradient(y), 0
    while width and steps < MAX_STEPS and gap_in_ball(y, gradient, bound) > 1e-13 * kl:
        newton = _model_minimum(softmax.curvature(y), gradient, y, bound)
        better, better_kl = _walk(softmax, y, kl, newton - y, bound)
        if better_kl >= kl:  # the digits of the KL are used up; those of the gradient are not, and they carry the proof
            better, better_kl = newton, softmax.kl(newton)
            shorter = gap_in_ball(better, softmax.gradient(better), bound) < 0.5 * gap_in_ball(y, gradient, bound)
            if not shorter or better_kl > kl * (1 + 1e-13):
                break
        y, kl, gradient, steps = better, better_kl, softmax.gradient(better), steps + 1
    return Nearest(y, kl, min(kl, gap_in_ball(y, gradient, bound)))  # no KL is below 0


def _into_ball(y: Array, bound: float) -> Array:
    length = float(np.linalg.norm(y))
    return y if length <= bound else y * (bound / length)


def _walk(softmax: Softmax, y: Array, kl: float, step: Array, bound: float) -> tuple[Array, float]:
    """The step, halved until it goes down, or doubled while it goes further down: exponential tails like long steps."""
    best, best_kl = y, kl
    for share in (0.5**k for k in range(40)):
        point = _into_ball(y + share * step, bound)
        if (value := softmax.kl(point)) < kl:
            best, best_kl = point, value
            break
    if best_kl < kl and share == 1.0:
        for share in (2.0**k for k in range(1, 40)):
            point = _into_ball(y + share * step, bound)
            if (value := softmax.kl(point)) >= best_kl:
                break
            best, best_kl = point, value
    return best, best_kl


def _model_minimum(curvature: Array, gradient: Array, y: Array, bound: float) -> Array:
    """The point v with |v| <= bound that minimises gradient.(v - y) + (v - y).curvature.(v - y) / 2."""
    sizes, basis = np.linalg.eigh(curvature)
    unit = max(float(sizes[-1]), float(np.linalg.norm(gradient)))
    if unit <= 0.0:
        return y
    sizes = np.maximum(sizes, 0.0) / unit
    pull = (curvature @ y - gradient) @ basis / unit
    floor = 1e-15 * float(sizes[-1])  # a flat direction is followed to the edge, not to infinity
    inside = pull / (sizes + floor + 1e-140)  # squares of the quotients stay finite
    if float(np.linalg.norm(inside)) <= bound:
        return np.asarray(basis @ inside)
    low, high = 0.0, float(np.linalg.norm(pull)) / bound
    for _ in range(200):
        ridge = np.sqrt(low * high) if low > 0 else high * 1e-8
        long = float(np.linalg.norm(pull / (sizes + ridge))) > bound
        low, high = (ridge, high) if long else (low, ridge)
        if (low > 0 and high / low - 1 < 1e-15) or high < 1e-290:
            break
    return np.asarray(basis @ (pull / (sizes + high)))
