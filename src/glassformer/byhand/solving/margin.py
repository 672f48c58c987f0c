"""Keys, members -> the unit direction along which the members tie and lead every other key by the widest margin.

The widest margin is the distance from the origin to the convex hull of the differences (member minus other), seen in the
space where the members tie. The nearest point proves it from above, the direction from below; both are returned. Whether
a margin exists at all is decided elsewhere, without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.byhand.numbers import Array

ROUNDING = 1e-10  # lengths below this share of the keys' own spread count as zero


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
    and the solution is the wanted mixture times a positive number.
    """
    amounts = nonnegative_least_squares(np.vstack([points.T, np.ones(len(points))]), np.append(np.zeros(points.shape[1]), 1.0))
    return amounts / amounts.sum()


def nonnegative_least_squares(matrix: Array, right: Array) -> Array:
    """x >= 0 that makes |matrix x - right| smallest (Lawson and Hanson 1974, the active-set method)."""
    n = matrix.shape[1]
    x, free = np.zeros(n), np.zeros(n, dtype=bool)
    tolerance = 1e-14 * float(np.abs(matrix).max()) * max(matrix.shape)
    for _ in range(10 * n + 10):  # finite in theory; the limit only guards against rounding going in circles
        pull = matrix.T @ (right - matrix @ x)
        pull[free] = -np.inf
        enter = int(np.argmax(pull))
        if pull[enter] <= tolerance:
            break
        free[enter] = True
        while True:
            goal = np.zeros(n)
            goal[free] = np.linalg.lstsq(matrix[:, free], right, rcond=None)[0]
            if goal[free].min() > 0:
                break
            low = free & (goal <= 0)
            share = float((x[low] / (x[low] - goal[low] + 1e-300)).min())
            x = x + share * (goal - x)
            free &= x > 1e-15 * max(1.0, float(x.max()))
            x[~free] = 0.0
            if not free.any():
                return x if x.any() else _only(n, enter)
        x = goal
    return x


def _only(n: int, at: int) -> Array:
    x = np.zeros(n)
    x[at] = 1.0
    return x
