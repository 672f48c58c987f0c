"""Scores as a linear function of y, a goal, a bound -> the y with |y| <= bound whose weights are nearest to the goal.

Nearest means the smallest KL from goal to weights: a convex problem. Newton steps, each minimising the quadratic model
over the whole ball, never going uphill. The proof of the answer needs no trust in the way it was found: by convexity no
point of the ball lies more than ``gap`` = g.y + bound |g| below (g the gradient at y). Computes in numpy; what is
printed as weights comes from the model's own attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.byhand.numbers import Array

MAX_STEPS = 400
_LARGEST_EXPONENT = 600.0  # exp overflows at 709


@dataclass(frozen=True)
class Nearest:
    """``kl`` is at most ``gap`` above the smallest in the ball. ``steps``: Newton steps taken."""

    y: Array
    kl: float
    gap: float
    steps: int


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


def _relative(scores: Array, goal: Array) -> tuple[NDArray[np.bool_], Array, float]:
    """Which keys the goal uses; scores minus the goal's own log weights and mean; the KL."""
    used, largest = goal > 0, float(goal.max())
    shifted = scores.copy()
    shifted[used] -= np.log(goal[used] / largest)  # equal weights: exactly 0, and no digit of the scores is lost
    shifted[~used] += np.log(largest)
    shifted = shifted - goal[used] @ shifted[used]
    if float(shifted.max()) > _LARGEST_EXPONENT:
        top = float(shifted.max())
        total = (goal[used] * np.exp(shifted[used] - top)).sum() + np.exp(shifted[~used] - top).sum()
        return used, shifted, max(0.0, top + float(np.log(total)))
    beyond = (goal[used] * _exp_minus_line(shifted[used])).sum() + np.exp(shifted[~used]).sum()
    return used, shifted, float(np.log1p(beyond))


def kl_from_scores(scores: Array, goal: Array) -> float:
    """KL(goal || softmax(scores)) without the cancellation of log(goal) - log(weights)."""
    return _relative(scores, goal)[2]


def excess_from_scores(scores: Array, goal: Array) -> Array:
    """softmax(scores) - goal, accurate where they nearly agree."""
    used, shifted, kl = _relative(scores, goal)
    return np.where(used, goal * np.expm1(np.where(used, shifted - kl, 0.0)), np.exp(np.where(used, 0.0, shifted - kl)))


def _exp_minus_line(x: Array) -> Array:
    """exp(x) - 1 - x: by its series where subtraction would leave no digits."""
    series = x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6))))
    return np.where(np.abs(x) < 1e-2, series, np.expm1(x) - x)


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
    return Nearest(y, kl, min(kl, gap_in_ball(y, gradient, bound)), steps)  # no KL is below 0


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
