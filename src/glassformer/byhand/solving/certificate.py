"""Why a goal cannot be reached: numbers that a person can check with a pencil, and that are checked before anyone sees them.

A mixture: some ignored keys, mixed, give a point on the line (plane, ...) through the used keys. A fixed proportion: the
used keys depend on each other, and so do their log weights. Each knows its check and its sentence.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from glassformer.byhand.numbers import Array
from glassformer.byhand.solving.exact import as_fractions
from glassformer.byhand.solving.margin import ROUNDING, spread
from glassformer.byhand.wording import combination, number, some_keys, vector

Coefficients = Mapping[int, Fraction | float]


class Certificate(ABC):
    """A proof that no query reaches the goal, not even in the limit."""

    exact: bool

    @abstractmethod
    def holds(self, keys: Array, goal: Array) -> bool:
        """Checks every claim again, from the keys and the goal alone."""

    @abstractmethod
    def sentence(self) -> str: ...

    @abstractmethod
    def to_dict(self) -> dict[str, Any]: ...


@final
@dataclass(frozen=True)
class Mixture(Certificate):
    """``sum outside_j k_j = sum members_i k_i``; outside > 0 with sum 1, members with sum 1 (and any sign)."""

    outside: Coefficients
    members: Coefficients
    exact: bool

    def holds(self, keys: Array, goal: Array) -> bool:
        if any(goal[j] > 0 for j in self.outside) or any(goal[i] == 0 for i in self.members) or not self.outside:
            return False
        if min(self.outside.values()) <= 0:
            return False
        if self.exact:
            sums = sum(self.outside.values()) == 1 == sum(self.members.values())
            return sums and not any(_combine(as_fractions(keys), self.outside, self.members))
        size = sum(abs(float(c)) for c in (*self.outside.values(), *self.members.values()))
        off = max(abs(float(sum(side.values())) - 1) for side in (self.outside, self.members))
        return off <= 1e-9 * size and self.residual(keys) <= 2 * ROUNDING * spread(keys) * size

    def residual(self, keys: Array) -> float:
        """The distance between the two sides in float64."""
        return float(np.linalg.norm([float(x) for x in _combine(keys.tolist(), self.outside, self.members)]))

    def largest_weight(self) -> float:
        """When one key is selected: its weight p obeys log p = sum mu_j log p_j, so p <= 1 / (1 + exp(entropy of mu))."""
        entropy = -sum(float(c) * math.log(float(c)) for c in self.outside.values())
        return 1.0 / (1.0 + math.exp(entropy))

    def sentence(self) -> str:
        how = "exactly" if self.exact else "up to rounding"
        others = some_keys(self.outside)
        if len(self.members) == 1:
            (chosen,) = self.members
            score = "the same score" if len(self.outside) == 1 else "that same mean of their scores, never above them all"
            return (
                f"key {chosen + 1} = {combination(self.outside)} ({how}). Whatever the query, key {chosen + 1} has {score}; "
                f"its weight is at most {number(self.largest_weight())}."
            )
        whose = f"the score of {others}" if len(self.outside) == 1 else f"that mean of the scores of {others}"
        fall = f"{others} cannot {'all ' if len(self.outside) > 1 else ''}fall without end below them"
        return (
            f"{combination(self.outside)} = {combination(self.members)} ({how}). So {whose} is fixed by the scores of "
            f"{some_keys(self.members)}: while these keep their wanted differences, {fall}, and cannot be ignored."
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "mixture",
            "exact": self.exact,
            "outside": _to_dicts(self.outside),
            "members": _to_dicts(self.members),
            "sentence": self.sentence(),
        }


@final
@dataclass(frozen=True)
class FixedProportion(Certificate):
    """``sum c_i k_i = 0`` and ``sum c_i = 0`` over the used keys, but ``sum c_i log(goal_i) = value``, which is not 0."""

    coefficients: Coefficients
    value: float
    exact: bool

    def holds(self, keys: Array, goal: Array) -> bool:
        if any(goal[i] <= 0 for i in self.coefficients):
            return False
        logs = sum(float(c) * math.log(goal[i]) for i, c in self.coefficients.items())
        size = sum(abs(float(c)) * (1 + abs(math.log(goal[i]))) for i, c in self.coefficients.items())
        if abs(logs - self.value) > 1e-12 * size or abs(logs) <= 1e-10 * size:
            return False
        if self.exact:
            return sum(self.coefficients.values()) == 0 and not any(_combine(as_fractions(keys), self.coefficients, {}))
        rest = np.array([float(x) for x in _combine(keys.tolist(), self.coefficients, {})])
        total = float(sum(self.coefficients.values()))
        unit = spread(keys) + float(np.abs(keys).max())
        return abs(total) <= 1e-9 * size and float(np.linalg.norm(rest)) <= ROUNDING * unit * size

    def sentence(self) -> str:
        how = "exactly" if self.exact else "up to rounding"
        return (
            f"{combination(self.coefficients)} = 0 ({how}), and the coefficients add up to 0. So for every query "
            f"{combination(self.coefficients, 'log p')} = 0, but the goal asks for {number(self.value)}."
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "fixed proportion",
            "exact": self.exact,
            "coefficients": _to_dicts(self.coefficients),
            "value": self.value,
            "sentence": self.sentence(),
        }


def limit_sentence(weights: Array, kl: float) -> str:
    """What is the best, for a goal that cannot be reached."""
    return f"The best that any query can have, of whatever length, is a KL of {number(kl)}, with weights {vector(weights)}."


def _combine(keys: Any, plus: Coefficients, minus: Coefficients) -> list[Any]:
    """sum plus_i k_i - sum minus_i k_i, in the numbers the keys are given in."""
    width = range(len(keys[0]))
    return [sum(c * keys[i][e] for i, c in plus.items()) - sum(c * keys[i][e] for i, c in minus.items()) for e in width]


def _to_dicts(coefficients: Coefficients) -> list[dict[str, Any]]:
    """One entry a key, numbered from 1; the exact fraction as text where there is one."""
    entries = []
    for place, c in coefficients.items():
        entry: dict[str, Any] = {"key": place + 1, "coefficient": float(c)}
        if isinstance(c, Fraction):
            entry["exact"] = str(c)
        entries.append(entry)
    return entries
