"""Why scores are divided by sqrt(d): the variance of a dot product grows with d, and softmax saturates."""

from __future__ import annotations

import numpy as np

from glassformer.byhand.explorations.base import Findings, exploration, within
from glassformer.byhand.result import number
from glassformer.byhand.softmax import weights_of

FORMS = ("q k", "q k / sqrt(d)")


@exploration("scaling", "Why are scores divided by sqrt(d)?")
def scaling(*, n: int = 16, largest: int = 512, deviation: float = 1.0, draws: int = 500, seed: int = 0) -> Findings:
    """Queries and n keys with independent entries of mean 0 and the given standard deviation, in d = 1, 2, 4 ... dimensions."""
    within("n", n, 2, 64)
    within("largest", largest, 2, 1024)
    within("deviation", deviation, 0.01, 10)
    within("draws", draws, 10, 2_000)
    rng = np.random.default_rng(seed)
    widths = 2 ** np.arange(int(np.log2(largest)) + 1)
    variance: dict[str, list[float]] = {form: [] for form in FORMS}
    top, slope = {form: list[float]() for form in FORMS}, {form: list[float]() for form in FORMS}
    for width in widths.tolist():
        queries = deviation * rng.normal(size=(draws, 1, width))
        keys = deviation * rng.normal(size=(draws, n, width))
        for form, scale in zip(FORMS, (1.0, 1 / np.sqrt(width))):
            scores, weights = scale * queries @ keys.transpose(0, 2, 1), weights_of(scale * queries, keys)[:, 0]
            variance[form].append(float(scores.var()))
            top[form].append(float(weights.max(axis=1).mean()))
            slope[form].append(float((weights * (1 - weights)).sum(axis=1).mean()))  # the diagonal of softmax's derivative
    expected = deviation**4 * widths
    numbers = {"d": widths, "variance": variance, "formula": expected, "largest_weight": top, "slope": slope}
    paragraph = (
        f"q . k is a sum of d products of independent numbers with mean 0 and variance {number(deviation**2)} each; a product "
        f"has variance {number(deviation**4)}, so the sum has d times that. At d = {widths[-1]} the variance is "
        f"{number(variance[FORMS[0]][-1])} (formula {number(float(expected[-1]))}), divided by sqrt(d) it is "
        f"{number(variance[FORMS[1]][-1])}, and about the same at every d. Without the division the largest of {n} weights is "
        f"{number(top[FORMS[0]][-1])} on average: softmax is nearly argmax, and its derivative, {number(slope[FORMS[0]][0])} "
        f"at d = 1, is {number(slope[FORMS[0]][-1])}; with it {number(top[FORMS[1]][-1])} and {number(slope[FORMS[1]][-1])}."
    )
    return Findings(numbers, paragraph)
