"""Trials with known differences: a baseline, and changes whose mean and spread over seeds are exact."""

from __future__ import annotations

import numpy as np

from glassformer.foundation.metrics import LOSS
from glassformer.study.statistics.evidence import Trials
from glassformer.study.statistics.verdict import Rules, decide

M = 737  # enough documents to rule out rare large losses at the margin of .01
# Eight seed effects with mean 0 and sd 1, so that t is known beforehand.
EFFECTS = np.array([-1.5, -0.9, -0.5, -0.1, 0.1, 0.5, 0.9, 1.5])
EFFECTS = EFFECTS / EFFECTS.std(ddof=1)


def base(seeds: int = 8, documents: int = M) -> Trials:
    return Trials("base", 3.0 + 0.3 * np.random.default_rng(0).normal(size=(seeds, documents)))


def change(name: str, shift: float, sd: float, *, of: Trials | None = None, document_sd: float = 0.0, **more) -> Trials:
    """A change whose paired differences have exactly this mean and sd over seeds, and documents that agree or do not."""
    of = of or base()
    effects = np.resize(EFFECTS, of.seeds)
    effects = (effects - effects.mean()) / effects.std(ddof=1)
    likes = np.random.default_rng(1).normal(size=of.values.shape[1])
    likes = document_sd * (likes - likes.mean())
    return Trials(name, of.values + shift + sd * effects[:, None] + likes, **more)


FIXED = Rules((8,), LOSS)


def one(trials: Trials, rules: Rules = FIXED, of: Trials | None = None, **more):
    return decide(of or base(), [trials], rules, **more)[0]
