"""Averaging two of n values with orthonormal keys: q = beta (k_a + k_b), and the variant that subtracts the other keys."""

from __future__ import annotations

import math

import numpy as np

from glassformer.byhand.explorations.base import Findings, exploration, orthonormal_rows, within
from glassformer.byhand.problem import Array
from glassformer.byhand.result import number
from glassformer.byhand.softmax import output_of, weights_of

NAMES = ("k_a + k_b", "k_a + k_b - others", "widest lead")


def directions(keys: Array) -> dict[str, Array]:
    """The two constructions (times beta they are the queries) and the best direction; a and b are the first two keys."""
    pair, others = keys[0] + keys[1], keys[2:].sum(axis=0)
    best = pair - 2.0 / (len(keys) - 2) * others
    return dict(zip(NAMES, (pair, pair - others, best / np.linalg.norm(best))))


@exploration("averaging", "How does attention average two of n values?")
def averaging(*, n: int = 12, d: int = 16, beta: float = 8.0, seed: int = 0) -> Findings:
    """n orthonormal keys; what the two constructions leak, against beta, against n, and at equal length of the query."""
    within("d", d, 3, 512)
    within("n", n, 3, d, "more than d keys cannot all be at right angles")
    within("beta", beta, 0.1, 500)
    rng = np.random.default_rng(seed)
    keys, values = orthonormal_rows(rng, n, d), rng.normal(size=(n, d))
    target = (values[0] + values[1]) / 2
    plain, minus, best = directions(keys).values()
    betas = np.linspace(0.0, beta, 33)
    errors = {
        name: np.linalg.norm(output_of(betas[:, None] * row, keys, values) - target, axis=1)
        for name, row in zip(NAMES, (plain, minus))
    }
    leaks = {name: _leak(betas[:, None] * row, keys) for name, row in zip(NAMES, (plain, minus))}
    lengths = np.linspace(0.0, beta * math.sqrt(2), 33)
    at_length = {
        name: _leak(lengths[:, None] * row / np.linalg.norm(row), keys) for name, row in zip(NAMES, (plain, minus, best))
    }
    sizes = sorted({3, *(round(x) for x in np.geomspace(3, n, 12).tolist())})
    middle = beta / 2
    against_n = {name: [_leak(middle * directions(keys[:m])[name], keys[:m]) for m in sizes] for name in NAMES[:2]}

    numbers = {
        "beta": betas,
        "error": errors,
        "leak": leaks,
        "n": sizes,
        "leak_by_n": against_n,
        "leak_by_n_at_beta": middle,
        "length": lengths,
        "leak_by_length": at_length,
        "lead_per_length": {
            "k_a + k_b": math.sqrt(0.5),
            "k_a + k_b - others": 2 / math.sqrt(n),
            "widest lead": math.sqrt(0.5 + 1 / (n - 2)),
        },
    }
    return Findings(numbers, _paragraph(n, beta, errors))


def _leak(queries: Array, keys: Array) -> Array:
    """The weight that does not go to the first two keys."""
    return np.asarray(weights_of(queries, keys)[..., 2:].sum(axis=-1))


def _paragraph(n: int, beta: float, errors: dict[str, Array]) -> str:
    plain, minus = (float(row[-1]) for row in errors.values())
    winner = "still wins" if n < 8 else "draws" if n == 8 else "loses"
    return (
        f"{n} orthonormal keys. q = beta (k_a + k_b) scores beta for a and b and 0 for the others, so the unwanted weight is "
        "(n-2) / (n-2 + 2 e^beta): the error falls with e^-beta and grows with n. Subtracting the other keys makes them "
        f"score -beta, and the error falls with e^(-2 beta). At beta = {number(beta)} the outputs are {number(plain)} and "
        f"{number(minus)} away from the mean. But the second query is longer: |q| is beta sqrt(n) instead of beta sqrt(2). At "
        f"equal length it leads by 2/sqrt(n) instead of 1/sqrt(2), and here, with n = {n}, it {winner} (they draw at n = 8). "
        "Best of all is to subtract a little: q along k_a + k_b - 2/(n-2) (others), with a lead of sqrt(1/2 + 1/(n-2)) = "
        f"{number(math.sqrt(0.5 + 1 / (n - 2)))}."
    )
