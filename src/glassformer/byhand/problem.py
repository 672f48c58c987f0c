"""Keys, values, a goal, a bound -> a checked problem. Keys are numbered from 1, as on paper.

Says what is asked and refuses what cannot be asked; does not solve. Imports no torch.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.byhand.numbers import Array, as_matrix, as_number, as_vector
from glassformer.foundation.errors import ConfigError, UnknownName

GOALS = ("select", "identity", "average", "weights")
# Keys of a published exercise; least squares on them gives the published queries to every printed digit.
WORKED_KEYS = ((0.47, 0.65, 0.60), (0.64, 0.50, -0.59), (-0.03, -0.48, -0.88), (0.43, -0.83, 0.35))


@dataclass(frozen=True)
class Goal:
    """What the weights shall be: one row per query (``identity`` has n of them, the others one)."""

    text: str
    kind: str
    rows: Array


@dataclass(frozen=True)
class Problem:
    """softmax(scale * q K^T) V with |q| <= bound. ``logits``: what least squares aims at (made up when None)."""

    keys: Array
    goal: Goal
    bound: float
    scale: float
    values: Array | None = None
    logits: Array | None = None

    def to_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "goal": self.goal.text,
            "keys": self.keys.tolist(),
            "bound": self.bound,
            "scale": self.scale,
        }
        if self.values is not None:
            document["values"] = self.values.tolist()
        return document


def make_problem(
    keys: Any, goal: Any, *, values: Any = None, bound: Any = 10.0, scale: Any = 1.0, logits: Any = None
) -> Problem:
    """A problem from whatever the user has: text, lists, arrays. ``keys="worked"`` are the keys of the worked case."""
    matrix = worked_keys() if isinstance(keys, str) and keys.strip() == "worked" else as_matrix("keys", keys)
    n, d = matrix.shape
    wanted = parse_goal(goal, n)
    rows = None if values is None else as_matrix("values", values)
    if rows is not None and len(rows) != n:
        raise ConfigError(f"values has {len(rows)} rows for {n} keys; every key needs one value.")
    aims = None if logits is None else as_vector("logits", logits)
    if aims is not None and (len(aims) != n or len(wanted.rows) > 1):
        raise ConfigError(f"logits needs one number for each of the {n} keys and a goal with one query; it has {len(aims)}.")
    return Problem(matrix, wanted, as_length("bound", bound), as_scale(scale, d), rows, aims)


def worked_keys() -> Array:
    return np.array(WORKED_KEYS)


def as_length(name: str, value: Any) -> float:
    """A length that leaves something to choose."""
    length = as_number(name, value)
    if not 0 < length <= 1e9:
        raise ConfigError(
            f"{name}={length:g} must be a length above 0 (and at most 1e9): a vector of length 0 has only one choice."
        )
    return length


def as_scale(value: Any, d: int) -> float:
    """The factor on the scores: a number above 0, or ``1/sqrt(d)``."""
    if isinstance(value, str) and re.fullmatch(r"1\s*/\s*sqrt\(?d\)?", value.strip()):
        return 1.0 / math.sqrt(d)
    scale = as_number("scale", value)
    if not 0 < scale <= 1e6:
        raise ConfigError(
            f"scale={scale:g} must be above 0: 1 for attention as on paper, 1/sqrt(d) for attention as in models."
        )
    return scale


def parse_goal(goal: Any, n: int) -> Goal:
    """``select 1``, ``identity``, ``average 1,2`` (or ``average all``), ``weights .5,.5,0``; or the weights themselves."""
    if isinstance(goal, Goal):
        return goal
    if not isinstance(goal, str):
        return _weights_goal(as_vector("weights", goal), n)
    kind, _, rest = goal.strip().partition(" ")
    kind, rest = kind.lower(), rest.strip()
    if kind not in GOALS:
        raise UnknownName("goal", kind, GOALS)
    if kind == "weights":
        if not rest:
            raise ConfigError("goal 'weights' needs the weights, for example: weights .5,.25,.25")
        return _weights_goal(as_vector("weights", rest), n)
    if kind == "identity":
        if rest:
            raise ConfigError(f"goal 'identity' takes nothing after it, not {rest!r}: it selects every key in turn.")
        return Goal("identity", kind, np.eye(n))
    members = list(range(n)) if kind == "average" and rest.lower() == "all" else _members(kind, rest, n)
    row = np.zeros(n)
    row[members] = 1.0 / len(members)
    return Goal(f"{kind} {','.join(str(i + 1) for i in members)}", kind, row[None])


def key_number(name: str, value: Any, n: int) -> int:
    """A key's number on paper (1 to n) -> its place (0 to n-1)."""
    number = as_number(name, value)
    if number != int(number) or not 1 <= number <= n:
        raise ConfigError(f"{name}={number:g}: keys are numbered from 1 to {n}.")
    return int(number) - 1


def _members(kind: str, text: str, n: int) -> list[int]:
    words = [word for word in re.split(r"[,\s]+", text.strip("{} ")) if word]
    if not words:
        raise ConfigError(f"goal {kind!r} names no key; write for example '{kind} 1'.")
    if kind == "select" and len(words) > 1:
        raise ConfigError(f"goal 'select' takes one key, not {len(words)}; to mix several use 'average {','.join(words)}'.")
    members = [key_number(kind, word, n) for word in words]
    if len(set(members)) < len(members):
        raise ConfigError(f"goal '{kind} {text}' names a key twice; for unequal weights use 'weights ...'.")
    return sorted(members)


def _weights_goal(weights: Array, n: int) -> Goal:
    if len(weights) != n:
        raise ConfigError(
            f"weights has {len(weights)} numbers for {n} keys; give one weight for every key, 0 where none is wanted."
        )
    if float(weights.min()) < 0:
        raise ConfigError(f"weights has {weights.min():g}; softmax weights are never negative.")
    total = float(weights.sum())
    if abs(total - 1) > 1e-6:
        raise ConfigError(f"weights add up to {total:g}, not 1; divide each by {total:g}.")
    return Goal(f"weights {','.join(f'{w:g}' for w in weights)}", "weights", (weights / total)[None])
