"""Keys, goal weights -> can any query reach them, where it leads, or a certificate that none can.

Weights w are reached in the limit exactly when (a) some query gives the used keys (w > 0) the wanted proportions and
(b) some direction lets the used keys tie and every other key fall behind. If (b) fails, the ignored keys of its certificate
cannot be ignored: add them to the used ones and repeat. This stops at the smallest face of the convex hull that contains the
goal's keys; the best weights are on that face. Decided exactly for keys of paper size, otherwise up to rounding.

A certificate is a few numbers that a person can check with a pencil. Keys are taken as the decimals a person reads (0.1 is one
tenth, not the double next to it), so "this key is the mean of those two" is decided by whole numbers, not guessed from a small
residual. Two kinds. A mixture: some ignored keys, mixed, give a point on the line (plane, ...) through the used keys. A fixed
proportion: the used keys depend on each other, and so do their log weights.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from glassformer.byhand.optimum import ROUNDING, Margin, Softmax, nearest_in_ball, row_space, spread, widest_margin
from glassformer.byhand.problem import Array
from glassformer.byhand.result import combination, number, some_keys
from glassformer.byhand.softmax import weights_of

Coefficients = Mapping[int, Fraction | float]
Integers = list[list[int]]
MAX_WORK = 600_000  # entries rewritten by the simplex method, all pivots together: about a second


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


@dataclass(frozen=True)
class Separated:
    """A direction along which the members tie and every other key is strictly lower. Any positive multiple does it too."""

    direction: list[int]


def as_fractions(rows: Array) -> list[list[Fraction]]:
    """Every number as the shortest decimal that stands for it."""
    return [[Fraction(repr(float(number))) for number in row] for row in rows]


def as_integers(rows: Array) -> Integers:
    """The rows times their common denominator. A common positive factor changes no question asked here."""
    fractions = as_fractions(rows)
    common = math.lcm(*(number.denominator for row in fractions for number in row))
    return [[int(number * common) for number in row] for row in fractions]


def separate(keys: Integers, members: list[int]) -> Separated | Mixture | None:
    """Is there u with equal k_i.u over the members and a smaller k_j.u for every other key? None: too large to decide here.

    Farkas: exactly one of the two answers exists. Members enter through differences to the first of them, twice with
    opposite signs because their coefficients may be negative.
    """
    first, *rest = members
    outside = [j for j in range(len(keys)) if j not in set(members)]
    down = [[a - b for a, b in zip(keys[j], keys[first])] for j in outside]
    along = [[a - b for a, b in zip(keys[i], keys[first])] for i in rest]
    columns = [[*c, 1] for c in down] + [[*c, 0] for c in along] + [[-x for x in c] + [0] for c in along]
    solution, farkas = _feasible(columns, [0] * len(keys[0]) + [1])
    if farkas is not None:
        return Separated(farkas[:-1])
    if solution is None:
        return None
    mu, plus, minus = solution[: len(down)], solution[len(down) : len(down) + len(rest)], solution[len(down) + len(rest) :]
    slopes = {i: b - a for i, a, b in zip(rest, plus, minus) if a != b}
    weights = {first: 1 - sum(slopes.values(), Fraction(0)), **slopes}
    members_used = {i: weight for i, weight in weights.items() if weight}
    return Mixture({j: m for j, m in zip(outside, mu) if m}, members_used, exact=True)


def _feasible(columns: Integers, right: list[int]) -> tuple[list[Fraction] | None, list[int] | None]:
    """Some x >= 0 with sum x_c column_c = right (right >= 0), or y with y.column_c <= 0 for all c and y.right > 0.

    Phase one of the simplex method on whole numbers: every entry is an integer over one common denominator, the last
    pivot (Edmonds), so that no fraction is ever reduced. Bland's rule: no cycles, however degenerate the keys. Neither
    x nor y when the work goes beyond ``MAX_WORK``.
    """
    m, n = len(right), len(columns)
    table = [[column[i] for column in columns] + [int(i == k) for k in range(m)] + [right[i]] for i in range(m)]
    cost = [-sum(row[c] for row in table) for c in range(n)] + [0] * m + [-sum(right)]
    basis, denominator, work = list(range(n, n + m)), 1, 0
    while (enter := next((c for c in range(n) if cost[c] < 0), None)) is not None:
        if (work := work + m * (n + m)) > MAX_WORK:
            return None, None
        leave = _leaving_row(table, basis, enter)
        pivot_row, pivot = table[leave], table[leave][enter]
        for row in (*(r for r in table if r is not pivot_row), cost):
            factor = row[enter]
            row[:] = [(pivot * a - factor * b) // denominator for a, b in zip(row, pivot_row)]
        basis[leave], denominator = enter, pivot
    if cost[-1] != 0:
        return None, [denominator - cost[n + k] for k in range(m)]
    x = [Fraction(0)] * n
    for i, column in enumerate(basis):
        if column < n:
            x[column] = Fraction(table[i][-1], denominator)
    return x, None


def _leaving_row(table: Integers, basis: list[int], enter: int) -> int:
    """The row with the smallest ratio right / entry; among equals the one whose variable has the smallest number."""
    best = -1
    for i, row in enumerate(table):
        if row[enter] <= 0:
            continue
        order = 1 if best < 0 else table[best][-1] * row[enter] - row[-1] * table[best][enter]
        if order > 0 or (order == 0 and basis[i] < basis[best]):
            best = i
    assert best >= 0, "phase one is never unbounded"
    return best


def dependences(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """A basis of all c with sum c_i row_i = 0: Gauss-Jordan on the transpose."""
    n, width = len(rows), len(rows[0])
    table = [[rows[i][e] for i in range(n)] for e in range(width)]
    pivots: list[int] = []
    for column in range(n):
        at = len(pivots)
        found = next((r for r in range(at, width) if table[r][column]), None)
        if found is None:
            continue
        table[at], table[found] = table[found], table[at]
        table[at] = [x / table[at][column] for x in table[at]]
        for r in range(width):
            if r != at and (factor := table[r][column]):
                table[r] = [x - factor * y for x, y in zip(table[r], table[at])]
        pivots.append(column)
    basis = []
    for free in (c for c in range(n) if c not in pivots):
        vector = [Fraction(0)] * n
        vector[free] = Fraction(1)
        for r, column in enumerate(pivots):
            vector[column] = -table[r][free]
        basis.append(vector)
    return basis


EXACT_ENTRIES = 6000  # of the simplex table
_ODD = 1e6  # an exact certificate with larger coefficients only describes the rounding of the keys


@dataclass(frozen=True)
class Reach:
    """``reachable`` is None when neither a direction nor a certificate stood up to its check.

    The best weights, with KL ``best_kl`` from the goal, are those of ``start + t * margin.direction`` for t to infinity
    (of ``start`` itself when ``margin`` is None: then every key counts). ``face``: the keys that keep weight there.
    """

    reachable: bool | None
    exact: bool
    start: Array
    margin: Margin | None
    face: list[int]
    best_kl: float
    best_weights: Array
    certificate: Certificate | None

    @property
    def attained(self) -> bool:
        """A query of finite length has the best weights."""
        return self.margin is None


@dataclass(frozen=True)
class _Separation:
    margin: Margin | None
    mixture: Mixture | None
    exact: bool


def reach(keys: Array, goal: Array, scale: float) -> Reach:
    """The whole answer for a query of any length."""
    used = [int(i) for i in np.flatnonzero(goal)]
    start, fixed, exact = _proportions(keys, goal, used, scale)
    face, first = list(used), None
    margin: Margin | None = None
    while len(face) < len(keys):
        step = _separation(keys, face, exactly=first is None)  # the first step is the verdict; the others find the face
        first, exact = first or step.mixture, exact and step.exact
        margin = step.margin
        if step.margin is not None or step.mixture is None:
            break
        face = _joined(keys, face, step.mixture)
    decided = margin is not None or len(face) == len(keys)
    claimed: list[Certificate] = [proof for proof in (first, fixed) if proof is not None]
    certificate = next((proof for proof in claimed if proof.holds(keys, goal)), None)
    decided, exact = decided and bool(certificate) == bool(claimed), certificate.exact if certificate else exact
    best_kl = 0.0
    if certificate is not None or face != used:
        start, best_kl = _best_on_face(keys[face], goal[face], scale)
    weights = np.zeros(len(keys))
    weights[face] = weights_of(start, keys[face], scale)
    reachable = None if not decided else certificate is None
    return Reach(reachable, exact, start, margin, face, best_kl, weights, certificate)


def _joined(keys: Array, face: list[int], mixture: Mixture) -> list[int]:
    """The face with the keys that cannot be ignored; all keys, when none lies outside the space that those span."""
    joined = sorted({*face, *mixture.outside})
    unit = spread(keys)
    inner, whole = (len(row_space(rows - rows.mean(axis=0), unit)) for rows in (keys[joined], keys))
    return list(range(len(keys))) if inner == whole else joined


def _separation(keys: Array, members: list[int], *, exactly: bool) -> _Separation:
    """Do the members tie above all others along some direction? Float64 measures, whole numbers confirm."""
    margin = widest_margin(keys, members)
    small = (keys.shape[1] + 1) * (len(keys) + len(members) + keys.shape[1]) <= EXACT_ENTRIES
    answer = separate(as_integers(keys), members) if exactly and small else None
    if margin.low > ROUNDING * spread(keys):
        return _Separation(margin, None, isinstance(answer, Separated))
    if isinstance(answer, Mixture) and max(abs(float(c)) for c in answer.members.values()) < _ODD:
        return _Separation(None, answer, True)
    mixture = _rounded_mixture(keys, members, margin)
    goal = np.zeros(len(keys))
    goal[members] = 1.0 / len(members)
    return _Separation(None, mixture if mixture.holds(keys, goal) else None, False)


def _rounded_mixture(keys: Array, members: list[int], margin: Margin) -> Mixture:
    """The same certificate in float64, for keys that only rounding (or their number) keeps from an exact one."""
    outside = [j for j in range(len(keys)) if j not in set(members)]
    mu = {j: float(c) for j, c in zip(outside, margin.mixture) if c > 1e-12}
    total = sum(mu.values())
    mu = {j: c / total for j, c in mu.items()}
    point = np.array(list(mu.values())) @ keys[list(mu)]
    centre = keys[members].mean(axis=0)
    basis = row_space(keys[members] - centre, spread(keys))
    slopes = (
        np.linalg.pinv((keys[members] - centre) @ basis.T).T @ (basis @ (point - centre))
        if len(basis)
        else np.zeros(len(members))
    )
    slopes = slopes - slopes.mean()
    return Mixture(mu, {i: float(c) + 1.0 / len(members) for i, c in zip(members, slopes)}, exact=False)


def _proportions(keys: Array, goal: Array, used: list[int], scale: float) -> tuple[Array, FixedProportion | None, bool]:
    """The shortest query that gives the used keys the wanted proportions, or why none does; and whether that is exact."""
    logs = np.log(goal[used])
    logs = logs - logs.mean()
    if float(np.abs(logs).max()) <= 1e-12:  # equal weights: q = 0 has them
        return np.zeros(keys.shape[1]), None, True
    around = keys[used] - keys[used].mean(axis=0)
    basis = row_space(around, spread(keys))
    start = np.linalg.lstsq(scale * around @ basis.T, logs, rcond=None)[0] @ basis if len(basis) else np.zeros(keys.shape[1])
    missed = logs - scale * around @ start
    small = len(used) * keys.shape[1] <= EXACT_ENTRIES // 8
    known = dependences([[*row, Fraction(1)] for row in as_fractions(keys[used])]) if small else []
    if float(np.abs(missed).max()) <= 1e-10 * max(1.0, float(np.abs(logs).max())):
        return start, None, small and not known
    best: FixedProportion | None = None
    for coefficients in known:
        value = sum(float(c) * math.log(goal[i]) for i, c in zip(used, coefficients))
        size = sum(abs(float(c)) for c in coefficients)
        candidate = FixedProportion({i: c for i, c in zip(used, coefficients) if c}, value, exact=True)
        if size < _ODD and abs(value) > 1e-8 * size and (best is None or len(candidate.coefficients) < len(best.coefficients)):
            best = candidate
    if best is None:
        missed = missed / float(np.abs(missed).max())
        value = sum(c * math.log(goal[i]) for i, c in zip(used, missed.tolist()))
        best = FixedProportion({i: float(c) for i, c in zip(used, missed)}, value, exact=False)
    return start, best, best.exact


def _best_on_face(keys: Array, goal: Array, scale: float) -> tuple[Array, float]:
    """The query nearest to the goal when only these keys exist; there it is attained, so some ball holds it inside."""
    centred = scale * (keys - keys.mean(axis=0))
    basis = row_space(centred, spread(scale * keys))
    softmax = Softmax(centred @ basis.T, np.zeros(len(keys)), goal)
    bound, y = 1.0, np.zeros(len(basis))
    for _ in range(14):
        found = nearest_in_ball(softmax, bound, [y])
        y = found.y
        if np.linalg.norm(y) < 0.5 * bound:
            break
        bound *= 10.0
    return np.asarray(y @ basis), found.kl
