"""Keys, a goal, a bound -> the answer: reachable or not and why, the best query, what least squares would give.

``solve`` is the front door. One goal row gives an ``Answer``; ``identity`` gives ``Answers``, one for every key. Least squares
against made-up logits, the usual homework answer, stands beside the real one so that one sees what it misses: the logits may
lie outside what the keys can do, and then nothing is promised about the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from glassformer.byhand.optimum import Softmax, gap_in_ball, nearest_in_ball, row_space, spread
from glassformer.byhand.problem import Array, Problem, make_problem
from glassformer.byhand.reachability import Reach, reach
from glassformer.byhand.result import Result, number, plain, some_keys, vector
from glassformer.byhand.softmax import excess_from_scores, kl_from_scores, output_of, scores_of, weights_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVE_POINTS = 41
ENOUGH = 0.99  # the share for which a sufficient length is named
LINES_IN_FULL = 16  # rows of an identity that are told one by one
VERDICTS = {True: "yes", False: "no", None: "not decided"}
WANTED_LOGIT = 100.0  # what published answers aim at for a chosen key, 0 for the others
UNWANTED_WEIGHT = 1e-6  # stands for 0 where the goal's weights differ and their logarithms are the logits


@dataclass(frozen=True)
class Best:
    """The best query within a bound. No query of that length has a KL below ``kl - gap``."""

    query: Array
    weights: Array
    kl: float
    gap: float
    bound: float


@dataclass(frozen=True)
class Curve:
    """The smallest KL for every length of the query, and that of the least-squares direction with the same length."""

    lengths: Array
    best: Array
    least_squares: Array

    def to_dict(self) -> dict[str, Any]:
        return plain({"lengths": self.lengths, "kl": self.best, "least_squares_kl": self.least_squares})


@dataclass(frozen=True)
class LeastSquares:
    """``query`` fits ``logits`` and gives ``own_weights``; ``rescaled_query`` has a given length and gives ``weights``."""

    logits: Array
    query: Array
    own_weights: Array
    own_kl: float
    rescaled_query: Array
    weights: Array
    kl: float

    def to_dict(self) -> dict[str, Any]:
        return plain(vars(self))


@final
@dataclass(frozen=True)
class Answer(Result):
    """Everything there is to say about one query. ``place`` is the row of the goal it answers."""

    problem: Problem
    place: int
    reach: Reach
    best: Best
    least_squares: LeastSquares

    @property
    def goal(self) -> Array:
        return np.asarray(self.problem.goal.rows[self.place])

    @property
    def reachable(self) -> bool | None:
        return self.reach.reachable

    @property
    def query(self) -> Array:
        return self.best.query

    @property
    def weights(self) -> Array:
        return self.best.weights

    @property
    def kl(self) -> float:
        return self.best.kl

    @property
    def output(self) -> Array | None:
        """What attention returns for the best query; None without values."""
        values = self.problem.values
        return None if values is None else output_of(self.query, self.problem.keys, values, self.problem.scale)

    @property
    def enough(self) -> float | None:
        """A length that certainly gives the wanted keys a share of 99 %, by the margin alone; None when not reachable."""
        margin, used, n = self.reach.margin, int((self.goal > 0).sum()), len(self.goal)
        if not self.reachable or margin is None or np.any(self.reach.start):
            return None
        return math.log((n - used) / used * ENOUGH / (1 - ENOUGH)) / (self.problem.scale * margin.low)

    @cached_property
    def curve(self) -> Curve:
        """Solved again for every length from 0 to the bound, each from the solution before."""
        keys, scale, lengths = self.problem.keys, self.problem.scale, np.linspace(0.0, self.problem.bound, CURVE_POINTS)
        direction, best, rows = self.least_squares.query, [], [np.zeros(keys.shape[1])]
        for length in lengths.tolist():
            found = best_query(keys, self.goal, scale, length, [with_length(rows[-1], length), *guesses(self.reach, length)])
            rows.append(found.query)
            best.append(found.kl)
        fits = [kl_from_scores(scores_of(with_length(direction, r), keys, scale), self.goal) for r in lengths.tolist()]
        return Curve(lengths, np.array(best), np.array(fits))

    @property
    def title(self) -> str:
        return f"Attention by hand: {self.problem.goal.text}"

    @property
    def text(self) -> str:
        """Three paragraphs: possible or not, the best within the bound, least squares beside it."""
        return "\n\n".join([_possible(self), _best(self), _beside(self)])

    def to_dict(self) -> dict[str, Any]:
        return {**self.without_curve(), "curve": self.curve.to_dict(), "text": self.text}

    def without_curve(self) -> dict[str, Any]:
        """Everything but the curve, which takes forty solutions more, and the text."""
        margin, certificate = self.reach.margin, self.reach.certificate
        return {
            "problem": {**self.problem.to_dict(), "row": self.place + 1},
            "goal": self.goal.tolist(),
            "reachable": self.reachable,
            "attained": self.reach.attained,
            "exact": self.reach.exact,
            "direction": None if margin is None else margin.direction.tolist(),
            "margin": None if margin is None else {"value": margin.low, "at_most": margin.high},
            "start": self.reach.start.tolist(),
            "certificate": None if certificate is None else certificate.to_dict(),
            "limit": {"kl": self.reach.best_kl, "weights": self.reach.best_weights.tolist()},
            "query": self.query.tolist(),
            "length": float(np.linalg.norm(self.query)),
            "weights": self.weights.tolist(),
            "kl": self.kl,
            "gap": self.best.gap,
            "output": None if self.output is None else self.output.tolist(),
            "least_squares": self.least_squares.to_dict(),
        }

    def figure(self) -> Figure:
        from glassformer.figures.byhand import answer_figure

        curve = self.curve
        return answer_figure(
            title=self.problem.goal.text,
            lengths=curve.lengths,
            best=curve.best,
            least_squares=curve.least_squares,
            floor=self.reach.best_kl,
            weights={"goal": self.goal, "best query": self.weights, "least squares": self.least_squares.weights},
            keys=self.problem.keys if self.problem.keys.shape[1] == 2 else None,
            query=self.query,
        )


@final
@dataclass(frozen=True)
class Answers(Result):
    """One answer for every key: the rows of Q that turn attention into the identity map."""

    problem: Problem
    rows: tuple[Answer, ...]

    @property
    def reachable(self) -> bool | None:
        verdicts = [row.reachable for row in self.rows]
        return False if False in verdicts else None if None in verdicts else True

    @property
    def queries(self) -> Array:
        return np.stack([row.query for row in self.rows])

    @property
    def weights(self) -> Array:
        return np.stack([row.weights for row in self.rows])

    @property
    def title(self) -> str:
        return f"Attention by hand: {self.problem.goal.text}"

    @property
    def text(self) -> str:
        """One line a key, and the whole in one sentence."""
        n, good = len(self.rows), sum(row.reachable is True for row in self.rows)
        head = f"identity: not possible; {good} of the {n} keys can be selected."
        if good == n:
            head = f"identity: possible in the limit. Each of the {n} keys can be selected by a query of its own."
        lines = [
            f"key {row.place + 1}: {VERDICTS[row.reachable]}; q = {vector(row.query)}, its weight "
            f"{number(float(row.weights[row.place]))} (least squares at the same length "
            f"{number(float(row.least_squares.weights[row.place]))})"
            for row in self.rows[:LINES_IN_FULL]
        ]
        proofs = [f"Not possible, because {row.reach.certificate.sentence()}" for row in self.rows if row.reach.certificate]
        return "\n\n".join([head, "\n".join(lines), *proofs[:LINES_IN_FULL]])

    def to_dict(self) -> dict[str, Any]:
        return {
            "problem": self.problem.to_dict(),
            "reachable": self.reachable,
            "queries": self.queries.tolist(),
            "weights": self.weights.tolist(),
            "rows": [row.without_curve() for row in self.rows],
            "text": self.text,
        }

    def figure(self) -> Figure:
        from glassformer.figures.byhand import pattern_figure

        return pattern_figure(
            title=self.problem.goal.text,
            patterns={
                "best queries": self.weights,
                "least squares": np.stack([row.least_squares.weights for row in self.rows]),
            },
        )


def solve(
    keys: Any, goal: Any, *, values: Any = None, bound: Any = 10.0, scale: Any = 1.0, logits: Any = None
) -> Answer | Answers:
    """What attention can do with these keys. ``goal``: ``"select 1"``, ``"identity"``, ``"average 1,2"``, ``"weights ..."``.

    Keys are numbered from 1. ``bound``: the largest |q|. ``scale``: 1, or ``"1/sqrt(d)"``. ``logits``: what least squares
    aims at, made up when not given.
    """
    problem = make_problem(keys, goal, values=values, bound=bound, scale=scale, logits=logits)
    rows = tuple(_solve_row(problem, place) for place in range(len(problem.goal.rows)))
    return rows[0] if problem.goal.kind != "identity" else Answers(problem, rows)


def _solve_row(problem: Problem, place: int) -> Answer:
    keys, goal, scale, bound = problem.keys, problem.goal.rows[place], problem.scale, problem.bound
    limits = reach(keys, goal, scale)
    aims = made_up_logits(goal) if problem.logits is None else problem.logits
    fitted = with_length(fit(keys, aims, scale), bound)
    best = best_query(keys, goal, scale, bound, [fitted, *guesses(limits, bound)])
    beside = least_squares(keys, goal, scale, float(np.linalg.norm(best.query)), aims)
    if beside.kl < best.kl:  # equal but for rounding, as with two keys
        best = measured(keys, goal, scale, bound, beside.rescaled_query)
    return Answer(problem, place, limits, best, beside)


def guesses(limits: Reach, bound: float) -> list[Array]:
    """Queries that are right in the limit: where to start looking."""
    if limits.margin is None:
        return [limits.start]
    rest = math.sqrt(max(0.0, bound**2 - float(limits.start @ limits.start)))
    return [limits.start, bound * limits.margin.direction, limits.start + rest * limits.margin.direction]


def best_query(keys: Array, goal: Array, scale: float, bound: float, starts: list[Array]) -> Best:
    """The query with |q| <= bound and the smallest KL. ``starts`` change the time it takes, not the answer."""
    mean = keys.mean(axis=0)
    basis = row_space(keys - mean, spread(keys))
    slopes = scale * (keys - mean) @ basis.T
    found = nearest_in_ball(Softmax(slopes, np.zeros(len(keys)), goal), bound, [basis @ start for start in starts])
    return measured(keys, goal, scale, bound, found.y @ basis)


def measured(keys: Array, goal: Array, scale: float, bound: float, query: Array) -> Best:
    """The query as it will be printed, with the figures of exactly that query."""
    length = float(np.linalg.norm(query))
    if length > bound * (1 + 1e-14):
        query = query * (bound / length)
    scores = scores_of(query, keys, scale)
    kl = kl_from_scores(scores, goal)
    gradient = scale * (keys - goal @ keys).T @ excess_from_scores(scores, goal)
    return Best(query, weights_of(query, keys, scale), kl, min(kl, gap_in_ball(query, gradient, bound)), bound)


def made_up_logits(goal: Array) -> Array:
    """100 for the wanted keys and 0 for the others; logarithms where the wanted weights differ."""
    used = goal > 0
    if np.ptp(goal[used]) <= 1e-12:
        return np.where(used, WANTED_LOGIT, 0.0)
    return np.log(np.maximum(goal, UNWANTED_WEIGHT))


def fit(keys: Array, logits: Array, scale: float) -> Array:
    """The shortest query among those with the smallest |scale K q - logits|; rounding around 0 is 0."""
    query = np.asarray(np.linalg.lstsq(scale * keys, logits, rcond=None)[0])
    size = scale * float(np.linalg.norm(keys, 2)) * float(np.linalg.norm(query))
    return query if size > 1e-12 * float(np.linalg.norm(logits)) else np.zeros_like(query)


def least_squares(keys: Array, goal: Array, scale: float, length: float, logits: Array | None = None) -> LeastSquares:
    """The fit, and the same direction with the given length."""
    aims = made_up_logits(goal) if logits is None else logits
    query = fit(keys, aims, scale)
    rescaled = with_length(query, length)
    own_kl, kl = (kl_from_scores(scores_of(q, keys, scale), goal) for q in (query, rescaled))
    own_weights, weights = (weights_of(q, keys, scale) for q in (query, rescaled))
    return LeastSquares(aims, query, own_weights, own_kl, rescaled, weights, kl)


def with_length(query: Array, length: float) -> Array:
    """The same direction; a zero query has none and stays zero."""
    norm = float(np.linalg.norm(query))
    return query * (length / norm) if norm > 0 else query


def _possible(answer: Answer) -> str:
    reach, goal = answer.reach, answer.problem.goal.text
    if answer.reachable is None:
        return (
            f"{goal}: not decided. Neither a direction nor a certificate passed its check in float64, so nothing is claimed "
            "beyond the best query below."
        )
    if not answer.reachable:
        assert reach.certificate is not None
        return (
            f"{goal}: not possible, because {reach.certificate.sentence()} The best that any query can have, of whatever "
            f"length, is a KL of {number(reach.best_kl)}, with weights {vector(reach.best_weights)}."
        )
    if reach.attained and not np.any(reach.start):
        return f"{goal}: possible exactly. q = 0 gives every key the same score, so all weights are 1/{len(answer.goal)}."
    if reach.attained:
        return f"{goal}: possible exactly, by q = {vector(reach.start)} of length {number(float(np.linalg.norm(reach.start)))}."
    return f"{goal}: possible in the limit of long queries. {_direction(answer)}"


def _direction(answer: Answer) -> str:
    margin = answer.reach.margin
    assert margin is not None
    used = [int(i) for i in np.flatnonzero(answer.goal)]
    same = "a score" if len(used) == 1 else "the same score,"
    text = (
        f"The query u = {vector(margin.direction)}, of length 1, gives {some_keys(used)} {same} at least {number(margin.low)} "
        f"above that of every other key, and no query of length 1 gives more than {number(margin.high)}."
    )
    if np.any(answer.reach.start):
        return (
            f"{text} Add q0 = {vector(answer.reach.start)}, which sets their proportions: q0 + t u reaches the goal as t grows."
        )
    if answer.enough is not None and answer.enough > 0:
        text += f" Made {number(answer.enough)} times as long, it gives a weight of 99 %."
    return text


def _best(answer: Answer) -> str:
    best, length = answer.best, float(np.linalg.norm(answer.query))
    text = (
        f"Best query with |q| <= {number(best.bound)}: q = {vector(best.query)}, |q| = {number(length)}, weights "
        f"{vector(best.weights)}, KL {number(best.kl)} nats. Proved: no such query has a KL lower by more than "
        f"{number(best.gap)}."
    )
    if answer.output is not None:
        text += f" Attention returns {vector(answer.output)}."
    return text


def _beside(answer: Answer) -> str:
    beside = answer.least_squares
    own = float(np.linalg.norm(beside.query))
    return (
        f"Least squares against the logits {vector(beside.logits)} says q = {vector(beside.query)}, of length {number(own)}: "
        f"weights {vector(beside.own_weights)}, KL {number(beside.own_kl)} nats. "
        f"With the length of the best query instead: weights {vector(beside.weights)}, KL {number(beside.kl)} nats."
    )
