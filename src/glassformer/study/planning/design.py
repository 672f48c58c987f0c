"""The design of a study: paired by seed, or each change against a bank of stored baseline runs; and the noise of one run.

Pairing helps where variants are correlated over seeds: for hyperparameters. Other architectures are not (median correlation
-.16 in our own studies), and then many stored baseline runs beside a few new runs of a change give more power for less
compute. Chosen before the first run, never after it. Imports no torch.
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

FEWEST_STORED = 16  # stored baseline runs from which on ``auto`` uses the bank
MOST_STORED = 64  # more do not help: the change's own noise dominates
PAIRED = "Baseline and changes are paired by seed"


def bank_seeds(stored: Sequence[int]) -> tuple[int, ...]:
    """The seeds of stored baseline runs that may be used: not those of tuning."""
    return tuple(sorted(seed for seed in stored if seed < FIRST_TUNING_SEED))[:MOST_STORED]


def choose_design(plan: StudyPlan, stored: Sequence[int], wanted: str, bad: Sequence[int] = ()) -> tuple[StudyPlan, str]:
    """The plan with its design, and a sentence that says which and why; a design that the plan already had is replaced.

    ``stored``: seeds of stored baseline runs. ``bad``: those of them that cannot be used (diverged, not above the trivial
    baseline). Runs are never excluded by their result, and a bad one would make every verdict invalid.
    """
    plan, seeds = plan.model_copy(update={"design": "paired", "bank": ()}), bank_seeds(stored)
    unusable = [seed for seed in seeds if seed in set(bad)]
    if wanted == "bank" and len(seeds) < FEWEST_SEEDS:
        raise ConfigError(
            f"--baseline bank needs at least {FEWEST_SEEDS} stored runs of the baseline, and there are {len(seeds)}; "
            "run a paired study first, which stores its runs.",
            reason="too-few-stored-runs",
        )
    if wanted == "bank" and unusable:
        raise ConfigError(
            f"--baseline bank: the stored runs of the baseline with {listed(unusable, 'seed')} failed. Runs may not be left "
            "out because of their results, so every verdict would be invalid; use --baseline paired.",
            reason="unusable-stored-runs",
        )
    hyper = sorted({key for change in plan.changes for key in change.set if not key.startswith("model.")})
    if wanted == "bank":
        why = "as requested"
    elif wanted == "paired":
        return plan, f"{PAIRED}, as requested."
    elif plan.tune is not None:
        return plan, f"{PAIRED}: tuned variants are compared on the same new seeds."
    elif hyper:
        return plan, f"{PAIRED}: for changes of {hyper[0]}, runs of one seed are often correlated, so pairs are more precise."
    elif len(seeds) < FEWEST_STORED:
        stored_runs = f"{len(seeds)} runs of this baseline are stored"
        return plan, f"{PAIRED}: {stored_runs}; from {FEWEST_STORED} on, they are used instead of new baseline runs."
    elif unusable:
        return plan, f"{PAIRED}: {len(unusable)} of the {len(seeds)} stored runs of this baseline failed."
    else:
        why = "for another model, runs of one seed are not correlated, so pairs are not more precise"
    chosen = plan.model_copy(update={"design": "bank", "bank": seeds})
    return chosen, f"The baseline is its {len(seeds)} stored runs, without pairs (Welch's test): {why}."


def expected_power(plan: StudyPlan, noise: float, runs: int) -> str:
    """The smallest difference the study will find, in the metric's unit, from the noise of stored baseline runs."""
    seeds, count = plan.all_looks[-1], max(1, len(plan.planned))
    if seeds < FEWEST_SEEDS:
        return ""
    size = detectable(seeds, count, plan.alpha)
    ratio = math.sqrt(2.0) if plan.design == "paired" else math.sqrt(1.0 + seeds / len(plan.bank))
    return (
        f"Over {runs} stored runs of this baseline, the standard deviation of {plan.judged.name} is {noise:.2g}. So {seeds} "
        f"seeds detect a difference of about {size * ratio * noise:.2g} {plan.judged.unit} with 80 % power (if pairs are not "
        "correlated and the documents add little variance)."
    )


def run_noise(values: Floats) -> float | None:
    """The standard deviation over runs; None for fewer than 4."""
    return float(np.std(values, ddof=1)) if len(values) >= 4 else None
