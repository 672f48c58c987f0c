"""Keys, goal weights -> can any query reach them, where it leads, or a certificate that none can.

Weights w are reached in the limit exactly when (a) some query gives the used keys (w > 0) the wanted proportions and
(b) some direction lets the used keys tie and every other key fall behind. If (b) fails, the ignored keys of its certificate
cannot be ignored: add them to the used ones and repeat. This stops at the smallest face of the convex hull that contains the
goal's keys; the best weights are on that face. Decided exactly for keys of paper size, otherwise up to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from glassformer.byhand.certificate import (
    Certificate,
    FixedProportion,
    Mixture,
    Separated,
    as_fractions,
    as_integers,
    dependences,
    separate,
)
from glassformer.byhand.optimum import ROUNDING, Margin, Softmax, nearest_in_ball, row_space, spread, widest_margin
from glassformer.byhand.problem import Array
from glassformer.byhand.softmax import weights_of

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
