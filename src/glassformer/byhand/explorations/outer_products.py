"""Keys, queries and values from outer products: what attention without projections cannot do, and three matrices can."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from glassformer.byhand.explorations.base import Findings, exploration, orthonormal_rows, within
from glassformer.byhand.problem import Array
from glassformer.byhand.result import number
from glassformer.byhand.softmax import output_of, weights_of

NEAREST_MIXTURE = math.sqrt(0.4)
"""How near any mixture of x1, x2, x3 comes to u_b, in units of beta: the minimum of 2 (1-s)^2 + s^2 / 2, at s = 4/5."""


def inputs(u: Array) -> Array:
    """x1 = u_d + u_b, x2 = u_a, x3 = u_c + u_b, for rows u_a, u_b, u_c, u_d."""
    a, b, c, d = u
    return np.stack([d + b, a, c + b])


def matrices(u: Array, beta: float) -> tuple[Array, Array, Array]:
    """Q = u_d u_a^T + u_c u_d^T, K = u_d u_d^T + u_c u_c^T, V = beta^-2 (u_b u_b^T - u_c u_c^T)."""
    a, b, c, d = u
    return (
        np.outer(d, a) + np.outer(c, d),
        np.outer(d, d) + np.outer(c, c),
        (np.outer(b, b) - np.outer(c, c)) / beta**2,
    )


@exploration("outer-products", "What do keys, queries and values from outer products add?")
def outer_products(*, d: int = 8, beta: float = 2.0, seed: int = 0) -> Findings:
    """Three inputs made of four orthogonal vectors of length beta, attended to without and with projections."""
    within("d", d, 4, 512, "four vectors at right angles need four dimensions")
    within("beta", beta, 0.1, 6, "scores grow with the sixth power of beta")
    basis = orthonormal_rows(np.random.default_rng(seed), 4, d)
    at = measure(basis, beta)
    betas = np.linspace(0.1, max(beta, 2.0), 39)
    rows = [measure(basis, b).distances for b in betas.tolist()]

    numbers = {
        "pattern_without": at.plain_pattern,
        "pattern_with": at.pattern,
        "distances": at.distances,
        "nearest_mixture_to_u_b": NEAREST_MIXTURE,
        "beta": betas,
        "distances_by_beta": {name: [row[name] for row in rows] for name in at.distances},
    }
    far = at.distances
    paragraph = (
        "x1 = u_d + u_b, x2 = u_a, x3 = u_c + u_b; the u are orthogonal and of length beta. With the inputs as their own "
        "queries, keys and values, x2 scores beta^2 with itself and 0 with the others: c2 goes to u_a (off by "
        f"{number(far['c2 - u_a, without'])} beta). It cannot be made u_b: every output is a mixture of x1, x2 and x3, and "
        f"none is nearer to u_b than sqrt(0.4) beta = {number(NEAREST_MIXTURE)} beta. The outer products take the inputs "
        "apart: u_a in x2 is asked for as u_d, which x1 offers, and its value is only its u_b. Scores become beta^6 = "
        f"{number(beta**6)}, so c2 goes to u_b (off by {number(far['c2 - u_b, with'])} beta) and c1 to u_b - u_c (off by "
        f"{number(far['c1 - (u_b - u_c), with'])} beta). The third query is 0, so c3 is the mean of the values."
    )
    return Findings(numbers, paragraph, {"chosen": beta})


@dataclass(frozen=True)
class Measured:
    """Attention matrices without and with the projections; distances to what was wanted, in units of beta."""

    plain_pattern: Array
    pattern: Array
    distances: dict[str, float]


def measure(basis: Array, beta: float) -> Measured:
    """Patterns and distances (in units of beta) for one beta."""
    u = beta * basis
    x = inputs(u)
    q_map, k_map, v_map = matrices(u, beta)
    queries, keys, values = x @ q_map.T, x @ k_map.T, x @ v_map.T
    without, outputs = output_of(x, x, x), output_of(queries, keys, values)
    a, b, c, _ = u
    distances = {
        "c2 - u_a, without": without[1] - a,
        "c2 - u_b, without": without[1] - b,
        "c2 - u_b, with": outputs[1] - b,
        "c1 - (u_b - u_c), with": outputs[0] - (b - c),
    }
    lengths = {name: float(np.linalg.norm(row)) / beta for name, row in distances.items()}
    return Measured(weights_of(x, x), weights_of(queries, keys), lengths)
