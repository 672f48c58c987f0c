"""Keys, a goal, one key that may be replaced (of any or of one length) -> the best replacement, and what is promised of it.

For a given query only the new key's score matters, and the KL is convex in it: closed form, nothing to search. When the
query is free too and the key of any length, the goal falls apart into the other keys (convex) and that closed form. With
query free and length fixed the problem is not convex; a convex relaxation bounds it from below, and mostly is attained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from glassformer.byhand.optimum import Softmax, nearest_in_ball, row_space
from glassformer.byhand.problem import Array, Problem, as_length, as_vector, key_number, make_problem
from glassformer.byhand.reachability import Certificate, FixedProportion, Mixture, reach
from glassformer.byhand.result import Result, number, vector
from glassformer.byhand.softmax import kl_from_scores, output_of, scores_of, weights_of
from glassformer.byhand.solver import best_query, guesses
from glassformer.foundation.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLOSE = 1e-9  # nats between the answer and its lower bound that count as none
NEAR = 1e-6  # what is left over when a weight of exactly 0 or 1 is only approached
STARTS = 12  # random directions tried where the problem is not convex
_HOW_APART = "the goal falls apart into the other keys, a convex problem, and the new key's score, in closed form"


@dataclass(frozen=True)
class Task:
    """Which key is replaced in which problem, and its new length (None: any). ``rest``: the places of the keys that stay."""

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


@final
@dataclass(frozen=True)
class Replacement(Result):
    """One key replaced. ``reachable``: in the limit, with what was allowed; None where that is not decided."""

    task: Task
    query: Array
    key: Array
    kl: float
    lower: float
    reachable: bool | None
    why: str
    how: str
    certificate: Certificate | None = None
    query_given: bool = False

    @property
    def problem(self) -> Problem:
        return self.task.problem

    @property
    def keys(self) -> Array:
        """All keys, with the new one in its place."""
        return self.task.with_key(self.key)

    @property
    def before(self) -> Array:
        """The weights that the query has with the old key."""
        return weights_of(self.query, self.problem.keys, self.problem.scale)

    @property
    def weights(self) -> Array:
        return weights_of(self.query, self.keys, self.problem.scale)

    @property
    def proven(self) -> bool:
        """Nothing allowed is better than this, but for rounding."""
        return self.kl <= self.lower + CLOSE

    @property
    def approached(self) -> bool:
        """The wanted weight is 0 or 1 and the key may have any length: longer is always better, and never done."""
        return self.task.length is None and self.task.share in (0.0, 1.0)

    @property
    def longer_query_reaches(self) -> bool:
        """With the new key, ever longer queries in the same direction reach the goal (equal weights only)."""
        goal, levels = self.task.goal, self.keys @ self.query
        used, size = goal > 0, 1e-9 * float(np.abs(levels).max())
        tied = np.ptp(levels[used]) <= size and np.ptp(goal[used]) <= 1e-12
        return bool(tied and (used.all() or float(levels[used].min()) > float(levels[~used].max()) + size))

    @property
    def output(self) -> Array | None:
        values = self.problem.values
        return None if values is None else output_of(self.query, self.keys, values, self.problem.scale)

    @property
    def title(self) -> str:
        return f"Attention by hand: replace key {self.task.place + 1} so that {self.problem.goal.text}"

    @property
    def text(self) -> str:
        of_length = f" of length {number(self.task.length)}" if self.task.length is not None else ""
        whose = "this query" if self.query_given else f"a query with |q| <= {number(self.problem.bound)}"
        sentence = f"Replace key {self.task.place + 1} by a key{of_length} so that {whose} does '{self.problem.goal.text}'"
        no = "not exactly possible" if self.query_given else "not possible"
        verdict = {True: "possible", False: no, None: "not decided whether possible in the limit"}[self.reachable]
        longer = ""
        if self.query_given and not self.reachable and self.longer_query_reaches:
            longer = " Longer queries in the same direction, with the new key, reach it in the limit."
        returns = "" if self.output is None else f" Attention returns {vector(self.output)}."
        found = (
            f"New key {self.task.place + 1}: {vector(self.key)}, of length {number(float(np.linalg.norm(self.key)))}; before "
            f"{vector(self.problem.keys[self.task.place])}. With q = {vector(self.query)} the weights go from "
            f"{vector(self.before)} to {vector(self.weights)}, KL {number(self.kl)} nats.{returns}"
        )
        such = "such key" if self.query_given else "such key and query"
        promise = f"no {such} has a KL below {number(self.lower)}; between the two nothing is known."
        promise = f"Not proved best ({self.how}): {promise}"
        if self.approached:
            promise = f"A longer key in this direction comes nearer still; this one leaves a KL of {number(self.kl)}."
        elif self.proven:
            promise = f"Proved: no {such} does better ({self.how})."
        return "\n\n".join([f"{sentence}: {verdict}; {self.why.rstrip('.')}.{longer}", found, promise])

    def to_dict(self) -> dict[str, Any]:
        return {
            "problem": {
                **self.problem.to_dict(),
                "replace": self.task.place + 1,
                "length": self.task.length,
                "query_given": self.query_given,
            },
            "goal": self.task.goal.tolist(),
            "reachable": self.reachable,
            "why": self.why,
            "how": self.how,
            "longer_query_reaches": self.longer_query_reaches,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "key": self.key.tolist(),
            "query": self.query.tolist(),
            "weights_before": self.before.tolist(),
            "weights": self.weights.tolist(),
            "kl": self.kl,
            "lower": self.lower,
            "proven": self.proven,
            "output": None if self.output is None else self.output.tolist(),
            "text": self.text,
        }

    def figure(self) -> Figure:
        from glassformer.figures.byhand import replacement_figure

        goal, scale = self.task.goal, self.problem.scale
        scores = scores_of(self.query, self.keys, scale)
        old = float(scores_of(self.query, self.problem.keys, scale)[self.task.place])
        new = float(scores[self.task.place])
        reach = None if self.task.length is None else scale * self.task.length * float(np.linalg.norm(self.query))
        low, high = (-reach, reach) if reach is not None else (min(old, new) - 6.0, max(old, new) + 6.0)
        grid = np.linspace(min(low, old), max(high, old), 161)
        kls = [kl_from_scores(np.where(np.arange(len(goal)) == self.task.place, score, scores), goal) for score in grid]
        return replacement_figure(
            title=f"replace key {self.task.place + 1} so that {self.problem.goal.text}",
            weights={"goal": goal, "before": self.before, "after": self.weights},
            scores=grid,
            kls=np.array(kls),
            marks={"old key": old, "new key": new},
            allowed=None if reach is None else (-reach, reach),
        )


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
            "goal 'identity' needs several queries, so no key can be replaced; use 'select', 'average' or 'weights'.",
            reason="replace-with-identity",
        )
    if len(problem.keys) < 2:
        raise ConfigError("keys has one row; replacing a key needs at least one other key.", reason="one-key")
    fixed_length = None if length is None else as_length("length", length)
    task = Task(problem, key_number("replace", replaced, len(problem.keys)), fixed_length)
    if query is None and task.length is None:
        return _free_query_any_length(task)
    if query is None and task.problem.keys.shape[1] == 1:
        return _free_query_on_a_line(task)
    if query is None:
        return _free_query_fixed_length(task, seed)
    fixed_query = as_vector("query", query)
    if len(fixed_query) != problem.keys.shape[1]:
        raise ConfigError(
            f"query has {len(fixed_query)} numbers, but the keys have {problem.keys.shape[1]}.", reason="query-width"
        )
    if not np.any(fixed_query):
        raise ConfigError("query has length 0, so every key scores 0; give a query that is not zero.", reason="zero-query")
    return _given_query(task, fixed_query)


def _given_query(task: Task, query: Array) -> Replacement:
    key = _key_for(task, query)
    kl = task.kl(query, key)
    floor = 0.0
    if task.share < 1:
        rest_scores = scores_of(query, task.problem.keys[task.rest], task.problem.scale)
        floor = (1 - task.share) * kl_from_scores(rest_scores, task.goal_of_rest)
    out_of_range = task.length is not None and kl > floor + CLOSE
    reachable = floor <= 1e-12 and not out_of_range
    why = _why_given(task, query, floor, out_of_range)
    lower = kl if task.length is not None or 0 < task.share < 1 else floor
    how = "for a given query the KL is convex in the new key's score, and this is its smallest value"
    return Replacement(task, query, key, kl, lower, reachable, why, how, query_given=True)


def _why_given(task: Task, query: Array, floor: float, out_of_range: bool) -> str:
    place, scale = task.place, task.problem.scale
    if floor > 1e-12:
        weights = weights_of(query, task.problem.keys[task.rest], scale)
        return (
            f"this query gives the other keys the proportions {vector(weights)}, which no replacement of key {place + 1} can "
            f"change, and the goal asks for {vector(task.goal_of_rest)}; a KL of {number(floor)} remains with any key"
        )
    if out_of_range:
        assert task.length is not None
        largest = scale * task.length * float(np.linalg.norm(query))
        return (
            f"a key of length {number(task.length)} scores between {number(-largest)} and {number(largest)} with this query, "
            "and the goal needs a score outside"
        )
    if task.share in (0.0, 1.0):
        return (
            f"the weight of key {place + 1} tends to {task.share:g} as its score goes to {'+' if task.share else '-'}infinity"
        )
    return f"key {place + 1} can be given any weight between 0 and 1, and the proportions of the others are as wanted"


def _wanted_score(task: Task, query: Array) -> float:
    """The score of the new key that makes its weight right, the others being what they are."""
    scores = scores_of(query, task.problem.keys[task.rest], task.problem.scale)
    top = float(scores.max())
    others = top + math.log(float(np.exp(scores - top).sum()))
    if task.length is not None and task.share in (0.0, 1.0):
        return math.inf if task.share else -math.inf
    share = min(max(task.share, NEAR), 1 - NEAR)
    return others + math.log(share / (1 - share))


def _key_for(task: Task, query: Array) -> Array:
    """The best key for this query; among equally good ones the nearest to the old key."""
    old, size = task.problem.keys[task.place], float(np.linalg.norm(query))
    unit, score = query / size, _wanted_score(task, query)
    if task.length is None:
        return np.asarray(old + (score / (task.problem.scale * size) - old @ unit) * unit)
    if len(query) == 1:  # a number of fixed size has two choices
        return min((np.array([task.length]), np.array([-task.length])), key=lambda key: task.kl(query, key))
    along = float(np.clip(score / (task.problem.scale * size), -task.length, task.length))
    across = old - (old @ unit) * unit
    if float(np.linalg.norm(across)) <= 1e-12 * max(1.0, float(np.linalg.norm(old))):
        across = np.linalg.svd(unit[None])[2][1]
    key = along * unit + math.sqrt(max(0.0, task.length**2 - along**2)) * across / np.linalg.norm(across)
    return np.asarray(key * (task.length / np.linalg.norm(key)))


def _free_query_any_length(task: Task) -> Replacement:
    """The other keys decide: KL = (1 - share) KL(rest) once the new key has the right score."""
    keys, scale, bound = task.problem.keys, task.problem.scale, task.problem.bound
    if task.share == 1.0:
        start = keys[task.place] if np.any(keys[task.place]) else np.eye(keys.shape[1])[0]
        query = start * (bound / np.linalg.norm(start))
        why = f"any query that is not zero will do, with key {task.place + 1} along it and long enough"
        key = _key_for(task, query)
        return Replacement(task, query, key, task.kl(query, key), 0.0, True, why, _HOW_APART)
    others, goal = keys[task.rest], task.goal_of_rest
    limits = reach(others, goal, scale)
    best = best_query(others, goal, scale, bound, guesses(limits, bound))
    query = best.query if np.any(best.query) else _small_query(others, scale, bound)
    certificate = _renumbered(limits.certificate, task.rest)
    why = _why_free(task, limits.reachable, certificate)
    lower = (1 - task.share) * (best.kl - best.gap)
    key = _key_for(task, query)
    return Replacement(task, query, key, task.kl(query, key), lower, limits.reachable, why, _HOW_APART, certificate)


def _why_free(task: Task, reachable: bool | None, certificate: Certificate | None) -> str:
    if certificate is not None:
        return f"the other keys alone cannot have the wanted proportions: {certificate.sentence()}"
    if reachable and task.share == 1:
        return f"along the query's direction key {task.place + 1} can lead every other key"
    if reachable:
        return f"the other keys reach their proportions, and key {task.place + 1} can have the score that its weight needs"
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


def _free_query_on_a_line(task: Task) -> Replacement:
    """d = 1: the new key is +length or -length, and each is an ordinary convex problem."""
    assert task.length is not None
    found = []
    for key in (np.array([task.length]), np.array([-task.length])):
        keys = task.with_key(key)
        limits = reach(keys, task.goal, task.problem.scale)
        best = best_query(keys, task.goal, task.problem.scale, task.problem.bound, guesses(limits, task.problem.bound))
        found.append((best, key, limits))
    best, key, limits = min(found, key=lambda item: item[0].kl)
    verdicts = [item[2].reachable for item in found]
    reachable = True if True in verdicts else None if None in verdicts else False
    lower = min(best.kl - best.gap for best, _, _ in found)
    why = f"a key of one number and fixed length has two choices, and {'one' if reachable else 'neither'} of them does it"
    how = "both choices were solved, each a convex problem"
    return Replacement(task, best.query, key, task.kl(best.query, key), lower, reachable, why, how)


def _free_query_fixed_length(task: Task, seed: int) -> Replacement:
    """Relaxed: the new key may score anything up to scale * length * bound, whatever the query's length. Then repaired."""
    query, lower = _relaxed(task)
    how = "a convex relaxation, in which the new key's score does not depend on the query's length, is attained"
    key = _key_for(task, query) if np.any(query) else task.problem.keys[task.place]
    if not np.any(query) or task.kl(query, key) > lower + CLOSE:
        query, key = _search(task, query, seed)
        how = f"found by search from {STARTS} directions, because the problem is not convex"
    reachable, certificate = _reachable_fixed_length(task, query)
    why = _why_free(task, reachable, certificate)
    return Replacement(task, query, key, task.kl(query, key), lower, reachable, why, how, certificate)


def _relaxed(task: Task) -> tuple[Array, float]:
    """The best query of the relaxation and the relaxation's KL: below that nothing can be."""
    assert task.length is not None
    keys, scale, bound = task.problem.keys, task.problem.scale, task.problem.bound
    others, largest = keys[task.rest], scale * task.length * bound
    order = [*task.rest, task.place]
    basis = row_space(others, float(np.abs(others).max()))
    slopes = np.vstack([scale * others @ basis.T, np.zeros(len(basis))])
    found: list[tuple[float, float, Array]] = []
    for side in (largest, -largest):
        offsets = np.append(np.zeros(len(others)), side)
        nearest = nearest_in_ball(Softmax(slopes, offsets, task.goal[order]), bound)
        found.append((nearest.kl, nearest.gap, nearest.y @ basis))
    if 0 < task.share < 1:
        best = best_query(others, task.goal_of_rest, scale, bound, [])
        score = _wanted_score(task, best.query)
        if abs(score) <= largest:
            found.append(((1 - task.share) * best.kl, (1 - task.share) * best.gap, best.query))
    query = min(found, key=lambda item: item[0])[2]
    lower = max(0.0, min(kl - gap for kl, gap, _ in found))
    if len(basis) < keys.shape[1]:  # a direction that no other key feels: longer there, for free
        unseen = np.linalg.svd(basis)[2][-1] if len(basis) else np.eye(keys.shape[1])[0]
        query = query + math.sqrt(max(0.0, bound**2 - float(query @ query))) * unseen
    return query, lower


def _search(task: Task, first: Array, seed: int) -> tuple[Array, Array]:
    """Best key for the query, best query for the keys, in turn, from several directions; each turn only improves."""
    keys, scale, bound = task.problem.keys, task.problem.scale, task.problem.bound
    rng = np.random.default_rng(seed)
    starts = [*([first] if np.any(first) else []), *rng.normal(size=(STARTS, keys.shape[1]))]
    best_kl, best = math.inf, (starts[0], keys[task.place])
    for start in starts:
        query, last = start * (bound / np.linalg.norm(start)), math.inf
        for _ in range(40):
            key = _key_for(task, query)
            query = best_query(task.with_key(key), task.goal, scale, bound, [query]).query
            kl = task.kl(query, key)
            if kl > last - 1e-9 or not np.any(query):
                break
            last = kl
        if kl < best_kl:
            best_kl, best = kl, (query, key)
    return best


def _reachable_fixed_length(task: Task, query: Array) -> tuple[bool | None, Certificate | None]:
    """Yes with a direction in hand, no with a certificate about the other keys, else not decided."""
    assert task.length is not None
    keys, length = task.problem.keys, task.length
    if task.share == 1.0:
        unit = query / np.linalg.norm(query) if np.any(query) else np.zeros_like(query)
        return (True if float((keys[task.rest] @ unit).max()) < length * (1 - 1e-9) and np.any(unit) else None), None
    limits = reach(keys[task.rest], task.goal_of_rest, task.problem.scale)
    if limits.reachable is not True:
        return limits.reachable, _renumbered(limits.certificate, task.rest)
    if limits.margin is None:
        if task.share == 0 or not np.any(limits.start):
            return None, None
        needed = abs(_wanted_score(replace(task, length=None), limits.start))
        return (True if needed <= task.problem.scale * length * float(np.linalg.norm(limits.start)) else None), None
    level = float((keys[task.rest][limits.face] @ limits.margin.direction).mean())
    return (True if (-length < level if task.share == 0 else abs(level) <= length) else None), None


def _renumbered(certificate: Certificate | None, places: list[int]) -> Certificate | None:
    """A certificate about some of the keys, with their numbers among all keys."""
    if isinstance(certificate, Mixture):
        outside = {places[j]: c for j, c in certificate.outside.items()}
        return replace(certificate, outside=outside, members={places[i]: c for i, c in certificate.members.items()})
    if isinstance(certificate, FixedProportion):
        return replace(certificate, coefficients={places[i]: c for i, c in certificate.coefficients.items()})
    return None
