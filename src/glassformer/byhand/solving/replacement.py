"""The answer to "replace key j so that ...": the new key, the weights before and after, and what is promised.

``lower`` is the promise: no allowed key (and no allowed query, where the query was free) has a smaller KL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from glassformer.byhand.numbers import Array
from glassformer.byhand.problem import Problem
from glassformer.byhand.result import Result
from glassformer.byhand.solving.certificate import Certificate
from glassformer.byhand.solving.nearest import kl_from_scores
from glassformer.byhand.weights import output_of, scores_of
from glassformer.byhand.wording import number, vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLOSE = 1e-9  # nats between the answer and its lower bound that count as none


@final
@dataclass(frozen=True)
class Replacement(Result):
    """One key replaced. ``reachable``: in the limit, with what was allowed; None where that is not decided."""

    problem: Problem
    place: int
    length: float | None
    given_query: bool
    query: Array
    key: Array
    before: Array
    weights: Array
    kl: float
    lower: float
    reachable: bool | None
    why: str
    how: str
    certificate: Certificate | None = None

    @property
    def keys(self) -> Array:
        """All keys, with the new one in its place."""
        keys = self.problem.keys.copy()
        keys[self.place] = self.key
        return keys

    @property
    def proven(self) -> bool:
        """Nothing allowed is better than this, but for rounding."""
        return self.kl <= self.lower + CLOSE

    @property
    def approached(self) -> bool:
        """The wanted weight is 0 or 1 and the key may have any length: longer is always better, and never done."""
        return self.length is None and float(self.problem.goal.rows[0][self.place]) in (0.0, 1.0)

    @property
    def longer_query_reaches(self) -> bool:
        """With the new key, ever longer queries in the same direction reach the goal (equal weights only)."""
        goal, levels = self.problem.goal.rows[0], self.keys @ self.query
        used, size = goal > 0, 1e-9 * float(np.abs(levels).max())
        tied = np.ptp(levels[used]) <= size and np.ptp(goal[used]) <= 1e-12
        return bool(tied and (used.all() or float(levels[used].min()) > float(levels[~used].max()) + size))

    @property
    def output(self) -> Array | None:
        values = self.problem.values
        return None if values is None else output_of(self.query, self.keys, values, self.problem.scale)

    @property
    def title(self) -> str:
        return f"Attention by hand: replace key {self.place + 1} so that {self.problem.goal.text}"

    @property
    def text(self) -> str:
        of_length = f" of length {number(self.length)}" if self.length is not None else ""
        whose = "this query" if self.given_query else f"a query with |q| <= {number(self.problem.bound)}"
        asked = f"Replace key {self.place + 1} by a key{of_length} so that {whose} does '{self.problem.goal.text}'"
        no = "not exactly possible" if self.given_query else "not possible"
        verdict = {True: "possible", False: no, None: "not decided whether possible in the limit"}[self.reachable]
        longer = " Longer queries in the same direction, with the new key, reach it in the limit." if self._worth_saying else ""
        returns = "" if self.output is None else f" Attention returns {vector(self.output)}."
        found = (
            f"New key {self.place + 1}: {vector(self.key)}, of length {number(float(np.linalg.norm(self.key)))}; before "
            f"{vector(self.problem.keys[self.place])}. With q = {vector(self.query)} the weights go from "
            f"{vector(self.before)} to {vector(self.weights)}, KL {number(self.kl)} nats.{returns}"
        )
        return "\n\n".join([f"{asked}: {verdict}; {self.why.rstrip('.')}.{longer}", found, self._promise()])

    @property
    def _worth_saying(self) -> bool:
        return self.given_query and not self.reachable and self.longer_query_reaches

    def _promise(self) -> str:
        such = "such key" if self.given_query else "such key and query"
        if self.approached:
            return f"A longer key in this direction comes nearer still; this one leaves a KL of {number(self.kl)}."
        if self.proven:
            return f"Proved: no {such} does better ({self.how})."
        return f"Not proved best ({self.how}): no {such} has a KL below {number(self.lower)}; between the two nothing is known."

    def to_dict(self) -> dict[str, Any]:
        return {
            "problem": {
                **self.problem.to_dict(),
                "replace": self.place + 1,
                "length": self.length,
                "query_given": self.given_query,
            },
            "goal": self.problem.goal.rows[0].tolist(),
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
        from glassformer.figures.byhand_answers import replacement_figure

        goal, scale = self.problem.goal.rows[0], self.problem.scale
        scores = scores_of(self.query, self.keys, scale)
        old = float(scores_of(self.query, self.problem.keys, scale)[self.place])
        new = float(scores[self.place])
        reach = None if self.length is None else scale * self.length * float(np.linalg.norm(self.query))
        low, high = (-reach, reach) if reach is not None else (min(old, new) - 6.0, max(old, new) + 6.0)
        grid = np.linspace(min(low, old), max(high, old), 161)
        kls = [kl_from_scores(np.where(np.arange(len(goal)) == self.place, score, scores), goal) for score in grid]
        return replacement_figure(
            title=f"replace key {self.place + 1} so that {self.problem.goal.text}",
            weights={"goal": goal, "before": self.before, "after": self.weights},
            scores=grid,
            kls=np.array(kls),
            marks={"old key": old, "new key": new},
            allowed=None if reach is None else (-reach, reach),
        )
