"""Tuning runs -> a variant's best setting, and the variance that selecting it by noisy runs adds to the variant's mean.

Other tuning seeds might have selected another setting. With few of them this is a larger part of the variance than the seeds
of the comparison, and an interval without it is too narrow. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import RunError
from glassformer.study.planning.plan import VALIDATION_SPLIT, StudyPlan
from glassformer.study.running.trial_results import TrialResult, metric_of

LANDSCAPES, DRAWS = 64, 400
QUANTILE = 0.95
"""The quantile of the selection variance over the simulated landscapes that is used."""
RATES = ("training.lr", "training.weight_decay", "training.clip", "training.label_smoothing")
"""Keys that affect neither the model nor its memory nor the length of a run; the settings of an optimizer do not, either."""
TRAINED_WITH, COMPUTED_WITH = ("training", "evaluation", "checkpoint"), ("training.precision", "training.device")
"""Sections that leave an untrained network as it is, and which of their keys a check depends on all the same."""
FEWEST_FOR_AN_EDGE = 3
"""The fewest values of a key for which a choice at the edge of the grid is worth a note."""


def tuning_variance(values: Floats, *, lower_is_better: bool = True, noise: float | None = None) -> float:
    """The selection variance: of the true mean of the selected point over repeated tunings, from ``values[point, seed]``.

    The true means are known up to the standard error of the observed ones. So true means ("landscapes") are drawn around
    them, in each the selection is repeated with new noise, and an upper quantile of the resulting variances is returned. The
    observed landscape alone would underestimate it: a wrong selection happens just where a worse point looked as good.
    ``noise``: the variance of one run, needed with a single tuning seed, which cannot estimate it.
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
    true_means = means + error * rng.standard_normal((LANDSCAPES, points))
    observed = true_means[:, None] + error * rng.standard_normal((DRAWS, points))
    variances = np.take_along_axis(true_means, observed.argmin(axis=-1), axis=1).var(axis=1)
    return float(np.quantile(variances, QUANTILE))


def best_setting(name: str, plan: StudyPlan, results: Sequence[TrialResult]) -> tuple[dict[str, Any], str]:
    """The point with the best mean, and a sentence about it; a point with a failed trial is never chosen."""
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
            f"Tuning: {name} failed with every setting of its grid ({why}); change the grid, or train longer.",
            reason="no-usable-setting",
        )
    chosen = plan.judged.best(means)
    points = plan.tuning_points(name)
    setting = ", ".join(f"{key}={value}" for key, value in points[chosen].items())
    where = "" if plan.split == VALIDATION_SPLIT else f" on {VALIDATION_SPLIT}"
    which = f"the best of {len(points)} settings"
    if len(means) < len(points):
        which = (
            f"{'the only one' if len(means) == 1 else f'the best of {len(means)}'} that could be used of {len(points)} settings"
        )
    note = f"{name} is tuned: {setting}, {which} ({plan.judged.name} {means[chosen]:.4f}{where})."
    return points[chosen], " ".join([note, *grid_edge_notes(points, chosen)])


def affects_cost(settings: Mapping[str, Any]) -> bool:
    """Whether tuned settings may change the cost of a run, or the model, so that it must be inspected again."""
    own = ("training.optimizer.", "training.schedule")
    return any(key not in RATES and (not key.startswith(own) or key.endswith(".kind")) for key in settings)


def makes_another_model(settings: Mapping[str, Any]) -> bool:
    """Whether tuned settings may change the network or how it computes, so that the variant's own check is not about it."""
    return any(key.split(".")[0] not in TRAINED_WITH or key in COMPUTED_WITH for key in settings)


def grid_edges(points: Sequence[dict[str, Any]], chosen: int) -> dict[str, bool]:
    """By key, each chosen number that is the largest (True) or smallest (False) of three or more tried."""
    found = {}
    for key, value in points[chosen].items():
        tried = {point[key] for point in points if isinstance(point[key], int | float) and not isinstance(point[key], bool)}
        if len(tried) >= FEWEST_FOR_AN_EDGE and value in (min(tried), max(tried)):
            found[key] = value == max(tried)
    return found


def grid_edge_notes(points: Sequence[dict[str, Any]], chosen: int) -> list[str]:
    """A sentence for each of them."""
    words = {True: ("largest", "above"), False: ("smallest", "below")}
    return [
        f"{key}={points[chosen][key]} is the {words[largest][0]} that was tried: a better one may lie {words[largest][1]} it."
        for key, largest in grid_edges(points, chosen).items()
    ]
