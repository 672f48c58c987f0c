"""Taking v_a out of the average (v_a + v_b) / 2: M = 2 A A^T, and what happens when the subspaces are not orthogonal."""

from __future__ import annotations

import numpy as np

from glassformer.byhand.explorations.base import Findings, exploration, orthonormal_rows, within
from glassformer.byhand.problem import Array
from glassformer.byhand.result import number
from glassformer.byhand.softmax import output_of

NAMES = ("2 A A^T", "oblique")
SMALLEST_ANGLE = 5.0  # degrees; at 0 the subspaces are one and nothing can be told apart


def subspaces(rng: np.random.Generator, d: int, m: int, degrees: float) -> tuple[Array, Array]:
    """Orthonormal columns A and B (d x m) with every principal angle between their spans equal to ``degrees``."""
    rows = orthonormal_rows(rng, 2 * m, d)
    a, across = rows[:m].T, rows[m:].T
    angle = np.radians(degrees)
    return a, np.cos(angle) * a + np.sin(angle) * across


def orthogonal_extractor(a: Array) -> Array:
    """M = 2 A A^T: twice the projection on span(A). Exact when B is orthogonal to A."""
    return np.asarray(2 * a @ a.T)


def oblique_extractor(a: Array, b: Array) -> Array:
    """Twice the projection on span(A) along span(B): exact at any angle above 0, but it stretches what lies in neither."""
    seen = a.T - (a.T @ b) @ b.T
    return np.asarray(2 * a @ np.linalg.solve(seen @ a, seen))


@exploration("superposition", "Can one value be taken out of an average?")
def superposition(
    *, d: int = 16, m: int = 4, n: int = 6, beta: float = 30.0, noise: float = 0.05, draws: int = 200, seed: int = 0
) -> Findings:
    """Attention averages v_a (in span A) and v_b (in span B); both extractors are tried at angles from 90 degrees down."""
    within("d", d, 2, 512)
    within("m", m, 1, d // 2, "two subspaces at right angles need 2 m <= d")
    within("n", n, 3, d, "the keys are orthonormal")
    within("beta", beta, 0.1, 500)
    within("noise", noise, 0, 100)
    within("draws", draws, 1, 20_000)
    rng = np.random.default_rng(seed)
    angles = np.linspace(90.0, SMALLEST_ANGLE, 18)
    clean: dict[str, list[float]] = {name: [] for name in NAMES}
    noisy: dict[str, list[float]] = {name: [] for name in NAMES}
    for degrees in angles.tolist():
        a, b = subspaces(rng, d, m, degrees)
        wanted, averages = _averages(rng, a, b, n, beta, draws)
        shaken = averages + noise * rng.normal(size=averages.shape)
        for name, extractor in zip(NAMES, (orthogonal_extractor(a), oblique_extractor(a, b))):
            clean[name].append(float(np.linalg.norm(averages @ extractor.T - wanted, axis=1).mean()))
            noisy[name].append(float(np.linalg.norm(shaken @ extractor.T - wanted, axis=1).mean()))
    formula = np.cos(np.radians(angles))

    numbers = {"angle": angles, "error": clean, "error_with_noise": noisy, "formula": formula}
    paragraph = (
        f"Attention with q = {number(beta)} (k_a + k_b) returns nearly (v_a + v_b) / 2; both values have length 1 and live in "
        f"{m}-dimensional subspaces of {d} dimensions. At right angles M = 2 A A^T gives v_a back: the error is "
        f"{number(clean[NAMES[0]][0])}, all of it from attention's own leak. When the subspaces lean towards each other, A^T "
        f"v_b is no longer 0, and the error grows as the cosine of the angle ({number(clean[NAMES[0]][-1])} at "
        f"{SMALLEST_ANGLE:g} degrees). A projection along B instead of across it stays exact ({number(clean[NAMES[1]][-1])}), "
        f"but it divides by the sine: with noise of {number(noise)} in every entry its error goes from "
        f"{number(noisy[NAMES[1]][0])} to {number(noisy[NAMES[1]][-1])}, that of 2 A A^T from {number(noisy[NAMES[0]][0])} to "
        f"{number(noisy[NAMES[0]][-1])}. Orthogonal subspaces are what makes reading from a superposition cheap and safe."
    )
    return Findings(numbers, paragraph, {"noise": number(noise)})


def _averages(rng: np.random.Generator, a: Array, b: Array, n: int, beta: float, draws: int) -> tuple[Array, Array]:
    """``draws`` times: v_a, and what attention returns when it averages v_a and v_b among n values of length 1."""
    keys = orthonormal_rows(rng, n, len(a))
    values = rng.normal(size=(draws, n, len(a)))
    values[:, 0] = rng.normal(size=(draws, a.shape[1])) @ a.T
    values[:, 1] = rng.normal(size=(draws, b.shape[1])) @ b.T
    values /= np.linalg.norm(values, axis=2, keepdims=True)
    query = beta * (keys[0] + keys[1])
    outputs = output_of(np.tile(query, (draws, 1, 1)), np.tile(keys, (draws, 1, 1)), values)
    return values[:, 0], outputs[:, 0]
