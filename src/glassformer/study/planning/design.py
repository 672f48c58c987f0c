"""The design of a study: paired by seed, or on request each change against a bank of stored baseline runs.

A bank saves training the baseline again. It needs 32 stored runs (a bank of 16 happens to be off by more than half of alpha
in one case of seven), none with a seed of the changes (those runs go together) and none left out by its result. Chosen before
the first run. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import ConfigError
from glassformer.study.planning.plan import FIRST_TUNING_SEED, StudyPlan
from glassformer.study.planning.power import FEWEST_SEEDS, detectable
from glassformer.study.reporting.wording import listed

FEWEST_STORED = 32
MOST_STORED = 64  # more do not help: the change's own noise dominates


def choose_design(plan: StudyPlan, stored: Sequence[int], wanted: str, bad: Sequence[int] = ()) -> tuple[StudyPlan, str]:
    """The plan with its design, and a sentence about it; a design that the plan already had is replaced.

    ``stored``: seeds of stored baseline runs. ``bad``: those of them that failed. Runs are never excluded by their result, and
    a bad one would make every verdict invalid.
    """
    plan = plan.model_copy(update={"design": "paired", "bank": ()})
    if wanted == "paired":
        return plan, ""
    usable = (seed for seed in stored if seed < FIRST_TUNING_SEED and seed not in plan.seed_numbers)
    seeds = tuple(sorted(usable))[:MOST_STORED]
    unusable = [seed for seed in seeds if seed in set(bad)]
    if len(seeds) < FEWEST_STORED:
        raise ConfigError(
            f"--baseline bank needs at least {FEWEST_STORED} stored runs of the baseline with other seeds than the changes, "
            f"and there are {len(seeds)}; leave it out to train pairs.",
            reason="too-few-stored-runs",
        )
    if unusable:
        raise ConfigError(
            f"--baseline bank: the stored runs of the baseline with {listed(unusable, 'seed')} failed. Runs may not be left "
            "out because of their results, so every verdict would be invalid; use --baseline paired.",
            reason="unusable-stored-runs",
        )
    chosen = plan.model_copy(update={"design": "bank", "bank": seeds})
    return chosen, f"The baseline is its {len(seeds)} stored runs, without pairs (Welch's test), as requested."


def expected_power(plan: StudyPlan, stored: Floats) -> str:
    """The smallest difference the study will find, in the metric's unit, from stored baseline runs; empty with too few."""
    seeds, count, noise = plan.all_looks[-1], max(1, len(plan.planned)), run_noise(stored)
    if seeds < FEWEST_SEEDS or noise is None:
        return ""
    size = detectable(seeds, count, plan.alpha)
    ratio = math.sqrt(2.0) if plan.design == "paired" else math.sqrt(1.0 + seeds / len(plan.bank))
    return (
        f"{len(stored)} stored runs of this baseline vary by {noise:.2g} {plan.judged.unit}. So {seeds} seeds detect a "
        f"difference of about {size * ratio * noise:.2g} with 80 % power (if pairs are not correlated and the documents add "
        "little variance)."
    )


def run_noise(values: Floats) -> float | None:
    """The standard deviation over runs; None for fewer than 4."""
    return float(np.std(values, ddof=1)) if len(values) >= 4 else None
