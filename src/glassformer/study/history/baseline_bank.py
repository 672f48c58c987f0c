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

FEWEST_KEPT = 16  # stored baseline runs from which on ``auto`` uses the bank
MOST_KEPT = 64  # more do not help: the change's own noise dominates


def bank_seeds(kept: Sequence[int]) -> tuple[int, ...]:
    """The seeds of stored baseline runs that may be used: not those of tuning."""
    return tuple(sorted(seed for seed in kept if seed < FIRST_TUNING_SEED))[:MOST_KEPT]


PAIRED = "Compared seed by seed (paired)"


def choose_design(plan: StudyPlan, kept: Sequence[int], wanted: str, bad: Sequence[int] = ()) -> tuple[StudyPlan, str]:
    """The plan with its design, and a sentence that says which and why; a design that the plan already had is replaced.

    ``kept``: seeds of stored baseline runs. ``bad``: those of them that cannot be used (diverged, not above the trivial
    baseline). Runs are never excluded by their result, and a bad one would make every verdict invalid.
    """
    plan, seeds = plan.model_copy(update={"design": "paired", "bank": ()}), bank_seeds(kept)
    unusable = [seed for seed in seeds if seed in set(bad)]
    if wanted == "bank" and len(seeds) < FEWEST_SEEDS:
        raise ConfigError(
            f"--baseline bank needs {FEWEST_SEEDS} kept runs of the baseline, and {len(seeds)} are kept; "
            "run a paired study first, which keeps its runs."
        )
    if wanted == "bank" and unusable:
        raise ConfigError(
            f"--baseline bank: the kept runs of the baseline with {listed(unusable, 'seed')} cannot be used, and may not be "
            "left out, so every verdict would be invalid; use --baseline paired."
        )
    hyper = sorted({key for change in plan.changes for key in change.set if not key.startswith("model.")})
    if wanted == "bank":
        why = "as you asked"
    elif wanted == "paired":
        return plan, f"{PAIRED}, as you asked."
    elif plan.tune is not None:
        return plan, f"{PAIRED}: tuned variants are compared on the same fresh seeds."
    elif hyper:
        return plan, f"{PAIRED}: with {hyper[0]}, runs of the same seed are often correlated, so pairs gain precision."
    elif len(seeds) < FEWEST_KEPT:
        return plan, f"{PAIRED}: {len(seeds)} runs of this baseline are stored, and {FEWEST_KEPT} could replace new ones."
    elif unusable:
        return plan, f"{PAIRED}: {len(unusable)} of the {len(seeds)} stored runs of this baseline cannot be used."
    else:
        why = "when the model changes, runs with the same seed do not correlate, so pairing gains nothing"
    chosen = plan.model_copy(update={"design": "bank", "bank": seeds})
    return chosen, f"Against {len(seeds)} kept runs of the baseline, without pairs (Welch's test): {why}."


def expected_power(plan: StudyPlan, noise: float, runs: int) -> str:
    """The smallest difference the study will find, in the metric's unit, from the noise of stored baseline runs."""
    seeds, count = plan.all_looks[-1], max(1, len(plan.planned))
    if seeds < FEWEST_SEEDS:
        return ""
    size = detectable(seeds, count, plan.alpha)
    ratio = math.sqrt(2.0) if plan.design == "paired" else math.sqrt(1.0 + seeds / len(plan.bank))
    return (
        f"The losses of {runs} kept runs of this baseline differ by a standard deviation of {noise:.2g}: "
        f"{seeds} seeds will find a difference of {size * ratio * noise:.2g} {plan.judged.unit} with 80 % power, "
        "if pairs gain nothing and documents add little."
    ).replace("The losses of", f"The {plan.judged.name} values of" if plan.judged.name != "loss" else "The losses of")


def run_noise(values: Floats) -> float | None:
    """The standard deviation over runs; None for fewer than 4."""
    return float(np.std(values, ddof=1)) if len(values) >= 4 else None
