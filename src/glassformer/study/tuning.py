"""The runs of a tuning grid -> a variant's best point of it, and how much the luck in choosing it moves the variant's mean.

Another set of tuning seeds would have chosen another point. With few tuning seeds that is a larger part of a difference than
the seeds it is measured with, and an interval that leaves it out is too short. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import RunError
from glassformer.study.plan import VALIDATION_SPLIT, StudyPlan
from glassformer.study.results import TrialResult, metric_of

LANDSCAPES, DRAWS = 64, 400
PLAUSIBLE = 0.95
"""Of the landscapes that fit the tuning runs, the share whose luck is no larger than the one that is counted."""
RATES = ("training.lr", "training.weight_decay", "training.clip", "training.label_smoothing")
"""What can be tuned without changing the model, its memory, or how long its run is; and so can an optimizer's own numbers."""
TRAINED_WITH, COMPUTED_WITH = ("training", "evaluation", "checkpoint"), ("training.precision", "training.device")
"""Sections that leave a network before training as it is, and what of them a check depends on all the same."""
FEWEST_FOR_AN_EDGE = 3
"""Values of a key from which on a grid has a middle, so that a choice at its end says something."""


def luck_of_choice(values: Floats, *, lower_is_better: bool = True, noise: float | None = None) -> float:
    """The variance over choices of the mean of the chosen point, from ``values[point, seed]``: as large as it may well be.

    What the points really give is known up to the noise in their means. So landscapes that fit are drawn, in each of them the
    choice is made again and again, and the largest luck but for a few (``PLAUSIBLE``) counts. The luck of the landscape that
    was seen would be too small just where it matters: a wrong choice comes from a tuning in which a worse point looked level.
    ``noise``: the variance of one run, for a single tuning seed, which cannot tell it.
    """
    values = values[np.isfinite(values).all(axis=1)]
    points, seeds = values.shape
    if points < 2:
        return 0.0
    of_run = float(values.var(axis=1, ddof=1).mean()) if seeds > 1 else noise or 0.0
    if of_run == 0.0:
        return 0.0
    rng, error = np.random.default_rng(points * 1000 + seeds), np.sqrt(of_run / seeds)
    means = values.mean(axis=1) if lower_is_better else -values.mean(axis=1)
    real = means + error * rng.standard_normal((LANDSCAPES, points))
    drawn = real[:, None] + error * rng.standard_normal((DRAWS, points))
    lucks = np.take_along_axis(real, drawn.argmin(axis=-1), axis=1).var(axis=1)
    return float(np.quantile(lucks, PLAUSIBLE))


def best_setting(name: str, plan: StudyPlan, results: Sequence[TrialResult]) -> tuple[dict[str, Any], str]:
    """The point with the best mean; one with a failed trial cannot be chosen."""
    means: dict[int, float] = {}
    for number in range(len(plan.tuning_points(name))):
        own = [one for one in results if one.trial.point == number]
        if own and all(one.problem is None and one.units is not None for one in own):
            values = [metric_of(one.units, plan.judged) for one in own if one.units is not None]
            means[number] = sum(values) / len(values)
    if not means:
        problems = sorted({str(one.problem.value) for one in results if one.problem is not None})
        why = ", ".join(problems or ["nothing measured" if results else "a check failed"])
        raise RunError(
            f"Tuning: {name} has no setting of its grid without a problem ({why}); change the grid, or train longer."
        )
    chosen = plan.judged.best(means)
    points = plan.tuning_points(name)
    said = ", ".join(f"{key}={value}" for key, value in points[chosen].items())
    where = "" if plan.split == VALIDATION_SPLIT else f" on {VALIDATION_SPLIT}"
    which = f"the best of {len(points)} settings"
    if len(means) < len(points):
        which = (
            f"{'the only one' if len(means) == 1 else f'the best of {len(means)}'} that could be used of {len(points)} settings"
        )
    told = f"{name} is tuned: {said}, {which} ({plan.judged.name} {means[chosen]:.4f}{where})."
    return points[chosen], " ".join([told, *at_the_edge(points, chosen)])


def costs_otherwise(settings: Mapping[str, Any]) -> bool:
    """Whether tuned settings may change what a run costs, or the model that is checked."""
    own = ("training.optimizer.", "training.schedule")
    return any(key not in RATES and (not key.startswith(own) or key.endswith(".kind")) for key in settings)


def makes_another_model(settings: Mapping[str, Any]) -> bool:
    """Whether tuned settings may change the network or how it computes, so that the variant's own check is not about it."""
    return any(key.split(".")[0] not in TRAINED_WITH or key in COMPUTED_WITH for key in settings)


def at_the_edge(points: Sequence[dict[str, Any]], chosen: int) -> list[str]:
    """A sentence for each chosen number that is the largest or smallest of three or more that were tried."""
    found = []
    for key, value in points[chosen].items():
        tried = {point[key] for point in points if isinstance(point[key], int | float) and not isinstance(point[key], bool)}
        if len(tried) < FEWEST_FOR_AN_EDGE or value not in (min(tried), max(tried)):
            continue
        which, side = ("largest", "above") if value == max(tried) else ("smallest", "below")
        found.append(f"{key}={value} is the {which} that was tried: a better one may lie {side} it.")
    return found
