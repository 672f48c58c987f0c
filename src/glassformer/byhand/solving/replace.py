"""Keys, a goal, one key that may be replaced (of any or of one length) -> the best replacement, and what is promised of it.

For a given query only the new key's score matters, and the KL is convex in it: closed form, nothing to search. When the
query is free too and the key of any length, the goal falls apart into the other keys (convex) and that closed form. With
query free and length fixed the problem is not convex; a convex relaxation bounds it from below, and mostly is attained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glassformer.byhand.numbers import Array, as_vector
from glassformer.byhand.problem import Problem, as_length, key_number, make_problem
from glassformer.byhand.solving.certificate import Certificate, FixedProportion, Mixture
from glassformer.byhand.solving.margin import row_space
from glassformer.byhand.solving.nearest import Softmax, kl_from_scores, nearest_in_ball
from glassformer.byhand.solving.reach import reach
from glassformer.byhand.solving.replacement import CLOSE, Replacement
from glassformer.byhand.solving.solver import best_query, guesses
from glassformer.byhand.weights import scores_of, weights_of
from glassformer.byhand.wording import number, vector
from glassformer.foundation.errors import ConfigError

NEAR = 1e-6  # what is left over when a weight of exactly 0 or 1 is only approached
STARTS = 12  # random directions tried where the problem is not convex
_HOW_APART = "the goal falls apart into the other keys, a convex problem, and the new key's score, in closed form"


@dataclass(frozen=True)
class TrainRequest:
    """The checked question. ``rest`` are the places of the keys that stay."""

    problem: Problem
    place: int
    length: float | None

    @property
    def goal(self) -> Array:
        return np.asarray(self.problem.goal.rows[0])

    @property
    def rest(self) -> list[int]:
        return [i for i in range(len(self.goal)) if i != self.place]

    @property
    def share(self) -> float:
        """The weight that the replaced key shall have."""
        return float(self.goal[self.place])

    @property
    def goal_of_rest(self) -> Array:
        return np.asarray(self.goal[self.rest] / self.goal[self.rest].sum())

    def with_key(self, key: Array) -> Array:
        keys = self.problem.keys.copy()
        keys[self.place] = key
        return keys

    def kl(self, query: Array, key: Array) -> float:
        return kl_from_scores(scores_of(query, self.with_key(key), self.problem.scale), self.goal)


def replace_key(
    keys: Any,
    goal: Any,
    replaced: Any,
    *,
    query: Any = None,
    length: Any = None,
    values: Any = None,
    bound: Any = 10.0,
    scale: Any = 1.0,
    seed: int = 0,
) -> Replacement:
    """Key number ``replaced`` (from 1) changed so that ``query``, or a free query with |q| <= bound, meets the goal best.

    ``length``: the new key's length; any when not given. ``seed``: for the search in the one case that needs it.
    """
    problem = make_problem(keys, goal, values=values, bound=bound, scale=scale)
    if len(problem.goal.rows) > 1:
        raise ConfigError(
            "goal 'identity' asks for many queries at once; replacing a key takes 'select', 'average' or 'weights'."
        )
    if len(problem.keys) < 2:
        raise ConfigError("keys has one row; replacing a key needs at least one other key.")
    fixed_length = None if length is None else as_length("length", length)
    asked = TrainRequest(problem, key_number("replace", replaced, len(problem.keys)), fixed_length)
    if query is None:
        return _free_query(asked, seed)
    given = as_vector("query", query)
    if len(given) != problem.keys.shape[1]:
        raise ConfigError(f"query has {len(given)} numbers, but the keys have {problem.keys.shape[1]}.")
    if not np.any(given):
        raise ConfigError("query has length 0: every key then scores 0, whatever it is; give a query that is not zero.")
    return _given_query(asked, given)


def _given_query(asked: TrainRequest, query: Array) -> Replacement:
    key = _key_for(asked, query)
    kl = asked.kl(query, key)
    floor = 0.0
    if asked.share < 1:
        rest_scores = scores_of(query, asked.problem.keys[asked.rest], asked.problem.scale)
        floor = (1 - asked.share) * kl_from_scores(rest_scores, asked.goal_of_rest)
    out_of_range = asked.length is not None and kl > floor + CLOSE
    reachable = floor <= 1e-12 and not out_of_range
    why = _why_given(asked, query, floor, out_of_range)
    lower = kl if asked.length is not None or 0 < asked.share < 1 else floor
    how = "for a given query the KL is convex in the new key's score, and this is its smallest value"
    return _result(asked, query, key, given=True, reachable=reachable, lower=lower, why=why, how=how)


def _why_given(asked: TrainRequest, query: Array, floor: float, out_of_range: bool) -> str:
    place, scale = asked.place, asked.problem.scale
    if floor > 1e-12:
        weights = weights_of(query, asked.problem.keys[asked.rest], scale)
        return (
            f"this query gives the other keys the proportions {vector(weights)}, which no replacement of key {place + 1} can "
            f"change, and the goal asks for {vector(asked.goal_of_rest)}; a KL of {number(floor)} remains with any key"
        )
    if out_of_range:
        assert asked.length is not None
        largest = scale * asked.length * float(np.linalg.norm(query))
        return (
            f"a key of length {number(asked.length)} scores between {number(-largest)} and {number(largest)} with this query, "
            "and the goal needs a score outside"
        )
    if asked.share in (0.0, 1.0):
        return (
            f"the weight of key {place + 1} tends to {asked.share:g} as its score goes to {'+' if asked.share else '-'}infinity"
        )
    return f"key {place + 1} can be given any weight between 0 and 1, and the proportions of the others are as wanted"


def _wanted_score(asked: TrainRequest, query: Array) -> float:
    """The score of the new key that makes its weight right, the others being what they are."""
    scores = scores_of(query, asked.problem.keys[asked.rest], asked.problem.scale)
    top = float(scores.max())
    others = top + math.log(float(np.exp(scores - top).sum()))
    if asked.length is not None and asked.share in (0.0, 1.0):
        return math.inf if asked.share else -math.inf
    share = min(max(asked.share, NEAR), 1 - NEAR)
    return others + math.log(share / (1 - share))


def _key_for(asked: TrainRequest, query: Array) -> Array:
    """The best key for this query; among equally good ones the nearest to the old key."""
    old, size = asked.problem.keys[asked.place], float(np.linalg.norm(query))
    unit, score = query / size, _wanted_score(asked, query)
    if asked.length is None:
        return np.asarray(old + (score / (asked.problem.scale * size) - old @ unit) * unit)
    if len(query) == 1:  # a number of fixed size has two choices
        return min((np.array([asked.length]), np.array([-asked.length])), key=lambda key: asked.kl(query, key))
    along = float(np.clip(score / (asked.problem.scale * size), -asked.length, asked.length))
    across = old - (old @ unit) * unit
    if float(np.linalg.norm(across)) <= 1e-12 * max(1.0, float(np.linalg.norm(old))):
        across = np.linalg.svd(unit[None])[2][1]
    key = along * unit + math.sqrt(max(0.0, asked.length**2 - along**2)) * across / np.linalg.norm(across)
    return np.asarray(key * (asked.length / np.linalg.norm(key)))


def _free_query(asked: TrainRequest, seed: int) -> Replacement:
    if asked.length is None:
        return _free_query_any_length(asked)
    if asked.problem.keys.shape[1] == 1:
        return _free_query_on_a_line(asked)
    return _free_query_fixed_length(asked, seed)


def _free_query_any_length(asked: TrainRequest) -> Replacement:
    """The other keys decide: KL = (1 - share) KL(rest) once the new key has the right score."""
    keys, scale, bound = asked.problem.keys, asked.problem.scale, asked.problem.bound
    if asked.share == 1.0:
        start = keys[asked.place] if np.any(keys[asked.place]) else np.eye(keys.shape[1])[0]
        query = start * (bound / np.linalg.norm(start))
        why = f"any query that is not zero will do, with key {asked.place + 1} along it and long enough"
        return _result(asked, query, _key_for(asked, query), given=False, reachable=True, lower=0.0, why=why, how=_HOW_APART)
    others, goal = keys[asked.rest], asked.goal_of_rest
    limits = reach(others, goal, scale)
    best = best_query(others, goal, scale, bound, guesses(limits, bound))
    query = best.query if np.any(best.query) else _small_query(others, scale, bound)
    certificate = _renumbered(limits.certificate, asked.rest)
    why = _why_free(asked, limits.reachable, certificate)
    lower = (1 - asked.share) * (best.kl - best.gap)
    key = _key_for(asked, query)
    return _result(
        asked,
        query,
        key,
        given=False,
        reachable=limits.reachable,
        lower=lower,
        why=why,
        how=_HOW_APART,
        certificate=certificate,
    )


def _why_free(asked: TrainRequest, reachable: bool | None, certificate: Certificate | None) -> str:
    if certificate is not None:
        return f"the other keys alone cannot have the wanted proportions: {certificate.sentence()}"
    if reachable and asked.share == 1:
        return f"along the query's direction key {asked.place + 1} can lead every other key"
    if reachable:
        return f"the other keys reach their proportions, and key {asked.place + 1} can have the score that its weight needs"
    return "no direction and no certificate was found that stands up to its check"


def _small_query(others: Array, scale: float, bound: float) -> Array:
    """The others want q = 0, the new key wants a score: along a direction they do not feel, or a short query."""
    around = others - others.mean(axis=0)
    size = float(np.linalg.norm(around, axis=1).max())
    felt = row_space(around, size)
    if len(felt) < others.shape[1]:
        free = np.linalg.svd(felt)[2][-1] if len(felt) else np.eye(others.shape[1])[0]
        return np.asarray(bound * free)
    return np.asarray(min(bound, 1e-3 / (scale * size)) * felt[-1])


def _free_query_on_a_line(asked: TrainRequest) -> Replacement:
    """d = 1: the new key is +length or -length, and each is an ordinary convex problem."""
    assert asked.length is not None
    found = []
    for key in (np.array([asked.length]), np.array([-asked.length])):
        keys = asked.with_key(key)
        limits = reach(keys, asked.goal, asked.problem.scale)
        best = best_query(keys, asked.goal, asked.problem.scale, asked.problem.bound, guesses(limits, asked.problem.bound))
        found.append((best, key, limits))
    best, key, limits = min(found, key=lambda item: item[0].kl)
    verdicts = [item[2].reachable for item in found]
    reachable = True if True in verdicts else None if None in verdicts else False
    lower = min(best.kl - best.gap for best, _, _ in found)
    why = f"a key of one number and fixed length has two choices, and {'one' if reachable else 'neither'} of them does it"
    how = "both choices were solved, each a convex problem"
    return _result(asked, best.query, key, given=False, reachable=reachable, lower=lower, why=why, how=how)


def _free_query_fixed_length(asked: TrainRequest, seed: int) -> Replacement:
    """Relaxed: the new key may score anything up to scale * length * bound, whatever the query's length. Then repaired."""
    query, lower = _relaxed(asked)
    how = "a convex relaxation, in which the new key's score does not depend on the query's length, is attained"
    key = _key_for(asked, query) if np.any(query) else asked.problem.keys[asked.place]
    if not np.any(query) or asked.kl(query, key) > lower + CLOSE:
        query, key = _search(asked, query, seed)
        how = f"found by search from {STARTS} directions, because the problem is not convex"
    reachable, certificate = _reachable_fixed_length(asked, query)
    why = _why_free(asked, reachable, certificate)
    return _result(asked, query, key, given=False, reachable=reachable, lower=lower, why=why, how=how, certificate=certificate)


def _relaxed(asked: TrainRequest) -> tuple[Array, float]:
    """The best query of the relaxation and the relaxation's KL: below that nothing can be."""
    assert asked.length is not None
    keys, scale, bound = asked.problem.keys, asked.problem.scale, asked.problem.bound
    others, largest = keys[asked.rest], scale * asked.length * bound
    order = [*asked.rest, asked.place]
    basis = row_space(others, float(np.abs(others).max()))
    slopes = np.vstack([scale * others @ basis.T, np.zeros(len(basis))])
    found: list[tuple[float, float, Array]] = []
    for side in (largest, -largest):
        offsets = np.append(np.zeros(len(others)), side)
        nearest = nearest_in_ball(Softmax(slopes, offsets, asked.goal[order]), bound)
        found.append((nearest.kl, nearest.gap, nearest.y @ basis))
    if 0 < asked.share < 1:
        best = best_query(others, asked.goal_of_rest, scale, bound, [])
        score = _wanted_score(asked, best.query)
        if abs(score) <= largest:
            found.append(((1 - asked.share) * best.kl, (1 - asked.share) * best.gap, best.query))
    query = min(found, key=lambda item: item[0])[2]
    lower = max(0.0, min(kl - gap for kl, gap, _ in found))
    if len(basis) < keys.shape[1]:  # a direction that no other key feels: longer there, for free
        unseen = np.linalg.svd(basis)[2][-1] if len(basis) else np.eye(keys.shape[1])[0]
        query = query + math.sqrt(max(0.0, bound**2 - float(query @ query))) * unseen
    return query, lower


def _search(asked: TrainRequest, first: Array, seed: int) -> tuple[Array, Array]:
    """Best key for the query, best query for the keys, in turn, from several directions; each turn only improves."""
    keys, scale, bound = asked.problem.keys, asked.problem.scale, asked.problem.bound
    rng = np.random.default_rng(seed)
    starts = [*([first] if np.any(first) else []), *rng.normal(size=(STARTS, keys.shape[1]))]
    best_kl, best = math.inf, (starts[0], keys[asked.place])
    for start in starts:
        query, last = start * (bound / np.linalg.norm(start)), math.inf
        for _ in range(40):
            key = _key_for(asked, query)
            query = best_query(asked.with_key(key), asked.goal, scale, bound, [query]).query
            kl = asked.kl(query, key)
            if kl > last - 1e-9 or not np.any(query):
                break
            last = kl
        if kl < best_kl:
            best_kl, best = kl, (query, key)
    return best


def _reachable_fixed_length(asked: TrainRequest, query: Array) -> tuple[bool | None, Certificate | None]:
    """Yes with a direction in hand, no with a certificate about the other keys, else not decided."""
    assert asked.length is not None
    keys, length = asked.problem.keys, asked.length
    if asked.share == 1.0:
        unit = query / np.linalg.norm(query) if np.any(query) else np.zeros_like(query)
        return (True if float((keys[asked.rest] @ unit).max()) < length * (1 - 1e-9) and np.any(unit) else None), None
    limits = reach(keys[asked.rest], asked.goal_of_rest, asked.problem.scale)
    if limits.reachable is not True:
        return limits.reachable, _renumbered(limits.certificate, asked.rest)
    if limits.margin is None:
        if asked.share == 0 or not np.any(limits.start):
            return None, None
        needed = abs(_wanted_score(replace(asked, length=None), limits.start))
        return (True if needed <= asked.problem.scale * length * float(np.linalg.norm(limits.start)) else None), None
    level = float((keys[asked.rest][limits.face] @ limits.margin.direction).mean())
    return (True if (-length < level if asked.share == 0 else abs(level) <= length) else None), None


def _renumbered(certificate: Certificate | None, places: list[int]) -> Certificate | None:
    """A certificate about some of the keys, with their numbers among all keys."""
    if isinstance(certificate, Mixture):
        outside = {places[j]: c for j, c in certificate.outside.items()}
        return replace(certificate, outside=outside, members={places[i]: c for i, c in certificate.members.items()})
    if isinstance(certificate, FixedProportion):
        return replace(certificate, coefficients={places[i]: c for i, c in certificate.coefficients.items()})
    return None


def _result(
    asked: TrainRequest,
    query: Array,
    key: Array,
    *,
    given: bool,
    reachable: bool | None,
    lower: float,
    why: str,
    how: str,
    certificate: Certificate | None = None,
) -> Replacement:
    problem, keys = asked.problem, asked.with_key(key)
    return Replacement(
        problem=problem,
        place=asked.place,
        length=asked.length,
        given_query=given,
        query=query,
        key=key,
        before=weights_of(query, problem.keys, problem.scale),
        weights=weights_of(query, keys, problem.scale),
        kl=asked.kl(query, key),
        lower=max(0.0, lower),
        reachable=reachable,
        why=why,
        how=how,
        certificate=certificate,
    )
