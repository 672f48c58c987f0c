"""One head against two when keys vary: the length of one key makes one head swing between two values; two heads do not."""

from __future__ import annotations

import numpy as np

from glassformer.byhand.explorations.base import Findings, exploration, orthonormal_rows, within
from glassformer.byhand.problem import Array
from glassformer.byhand.result import number, percent
from glassformer.byhand.softmax import output_of, weights_of

CASES = ("one head, isotropic noise", "one head, length of k_a varies", "two heads, length of k_a varies")


def draw_keys(rng: np.random.Generator, means: Array, alpha: float, draws: int, *, long_a: bool) -> Array:
    """Keys from N(mu_i, alpha I); with ``long_a`` the first has covariance alpha I + mu_a mu_a^T / 2."""
    keys = means + np.sqrt(alpha) * rng.normal(size=(draws, *means.shape))
    if long_a:
        keys[:, 0] += np.sqrt(0.5) * rng.normal(size=(draws, 1)) * means[0]
    return np.asarray(keys)


def spread_of(weight_a: Array, distance: Array) -> dict[str, float]:
    """The distribution of the weight on v_a and of the output's distance to the mean, in a few numbers."""
    return {
        "mean_weight_a": float(weight_a.mean()),
        "sd_weight_a": float(weight_a.std()),
        "share_near_half": float((np.abs(weight_a - 0.5) < 0.1).mean()),
        "share_one_sided": float(((weight_a < 0.1) | (weight_a > 0.9)).mean()),
        "mean_distance_to_average": float(distance.mean()),
    }


@exploration("heads", "Why two heads, when one can average?")
def heads(*, n: int = 8, d: int = 12, alpha: float = 1e-5, beta: float = 20.0, draws: int = 4000, seed: int = 0) -> Findings:
    """Keys around orthonormal means; one head with q = beta (mu_a + mu_b), two with q1 = beta mu_a and q2 = beta mu_b."""
    within("d", d, 3, 256)
    within("n", n, 3, d, "the mean keys are orthonormal")
    within("alpha", alpha, 0, 1)
    within("beta", beta, 0.1, 500)
    within("draws", draws, 10, 50_000)
    rng = np.random.default_rng(seed)
    means, values = orthonormal_rows(rng, n, d), orthonormal_rows(rng, n, d)
    target = (values[0] + values[1]) / 2
    quiet = draw_keys(rng, means, alpha, draws, long_a=False)
    long_a = draw_keys(rng, means, alpha, draws, long_a=True)
    one, two = beta * (means[0] + means[1])[None], beta * means[:2]
    weights: dict[str, Array] = {}
    numbers: dict[str, dict[str, float]] = {}
    for case, keys, queries in zip(CASES, (quiet, long_a, long_a), (one, one, two)):
        many = np.broadcast_to(queries, (draws, *queries.shape))
        row = weights_of(many, keys).mean(axis=1)  # the heads' outputs are averaged, so their weights are
        outputs = output_of(many, keys, np.broadcast_to(values, (draws, *values.shape))).mean(axis=1)
        weights[case] = row[:, 0]
        numbers[case] = spread_of(row[:, 0], np.linalg.norm(outputs - target, axis=1))

    return Findings(numbers, _paragraph(beta, alpha, draws, numbers), {"weights": weights})


def _paragraph(beta: float, alpha: float, draws: int, numbers: dict[str, dict[str, float]]) -> str:
    quiet, one, two = (numbers[case] for case in CASES)
    calm = "one head averages" if quiet["sd_weight_a"] < 0.1 else "the noise alone makes one head swing"
    return (
        f"{draws} draws of the keys, beta = {number(beta)}. With isotropic noise (alpha = {number(alpha)}) {calm}: the weight "
        f"on v_a has standard deviation {number(quiet['sd_weight_a'])}; noise is harmless while beta sqrt(2 alpha) = "
        f"{number(beta * (2 * alpha) ** 0.5)} is well below 1. Now the length of k_a varies (covariance alpha I + mu_a mu_a^T "
        "/ 2): k_a is about e mu_a with e from N(1, 1/2), the scores of a and b differ by beta (e - 1), and in "
        f"{percent(one['share_one_sided'])} of the draws one of the two takes over nine tenths (standard deviation "
        f"{number(one['sd_weight_a'])}). Two heads ask separately: each only needs its own key to lead, so the weight on v_a "
        f"is within 0.1 of one half in {percent(two['share_near_half'])} of the draws, against "
        f"{percent(one['share_near_half'])} for one head (standard deviation {number(two['sd_weight_a'])}). Not in all: when "
        "e is near 0 or below, k_a no longer leads for the first head, and v_a is lost."
    )
