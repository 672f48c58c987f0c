"""Kept runs of a baseline -> whether a study is paired or set against them, said with the reason; and how noisy runs are.

Pairing gains where a lucky seed is lucky for both variants: for hyperparameters. For another architecture it is not (median
correlation -.16 in our own studies), and then many kept runs of the baseline beside few new ones of a change find more for
less. Decided before the first run, never after it. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import ConfigError
from glassformer.study.plan import FIRST_TUNING_SEED, StudyPlan
from glassformer.study.power import FEWEST_SEEDS, detectable
from glassformer.study.wording import listed

FEWEST_KEPT = 16  # kept runs of the baseline from which on they are used without being asked for
MOST_KEPT = 64  # more add nothing: the noise is then the change's own


def bank_seeds(kept: Sequence[int]) -> tuple[int, ...]:
    """Of the seeds of kept runs of a baseline those that may stand for it: not those that its settings were chosen by."""
    return tuple(sorted(seed for seed in kept if seed < FIRST_TUNING_SEED))[:MOST_KEPT]


PAIRED = "Compared seed by seed (paired)"


def choose_design(plan: StudyPlan, kept: Sequence[int], wanted: str, bad: Sequence[int] = ()) -> tuple[StudyPlan, str]:
    """The plan with its design, and the sentence that says which and why; whatever design it had is chosen anew.

    ``kept``: seeds of kept runs of the baseline. ``bad``: those of them that cannot be used (diverged, not above the trivial
    baseline). Runs are never left out because of what they gave, and a bad one would make every verdict invalid.
    """
    plan, seeds = plan.model_copy(update={"design": "paired", "bank": ()}), bank_seeds(kept)
    spoilt = [seed for seed in seeds if seed in set(bad)]
    if wanted == "bank" and len(seeds) < FEWEST_SEEDS:
        raise ConfigError(
            f"--baseline bank needs {FEWEST_SEEDS} kept runs of the baseline, and {len(seeds)} are kept; "
            "run a paired study first, which keeps its runs."
        )
    if wanted == "bank" and spoilt:
        raise ConfigError(
            f"--baseline bank: the kept runs of the baseline with {listed(spoilt, 'seed')} cannot be used, and may not be left "
            "out, so every verdict would be invalid; take --baseline paired."
        )
    hyper = sorted({key for change in plan.changes for key in change.set if not key.startswith("model.")})
    if wanted == "bank":
        why = "as you asked"
    elif wanted == "paired":
        return plan, f"{PAIRED}, as you asked."
    elif plan.tune is not None:
        return plan, f"{PAIRED}: tuned variants are compared on the same fresh seeds."
    elif hyper:
        return plan, f"{PAIRED}: for {hyper[0]} a lucky seed is often lucky for both, so pairs gain precision."
    elif len(seeds) < FEWEST_KEPT:
        return plan, f"{PAIRED}: {len(seeds)} runs of this baseline are stored, and {FEWEST_KEPT} could replace new ones."
    elif spoilt:
        return plan, f"{PAIRED}: {len(spoilt)} of the {len(seeds)} stored runs of this baseline cannot be used."
    else:
        why = "for changes of the model a lucky seed is not lucky for both, so pairs gain nothing"
    chosen = plan.model_copy(update={"design": "bank", "bank": seeds})
    return chosen, f"Against {len(seeds)} kept runs of the baseline, without pairs (Welch's test): {why}."


def foreseen(plan: StudyPlan, noise: float, runs: int) -> str:
    """What the study will find, in the metric's own unit, from the noise of kept runs of this baseline."""
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


def noise_of(values: Floats) -> float | None:
    """The standard deviation of one run; None from fewer than 4."""
    return float(np.std(values, ddof=1)) if len(values) >= 4 else None
