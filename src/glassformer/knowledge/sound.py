"""The association of answers with the sound of a person's name, as an effect with a jackknife interval.

The pull: the fraction of answers in the region the name sounds like, minus that expected if the same answers were randomly
permuted over the names. 0: no association. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.foundation.distributions import t_upper
from glassformer.foundation.estimate import Estimate


def pull_of_sound(sounds: Sequence[str | int], regions: Sequence[str | int | None]) -> Estimate:
    """``sounds[i]``: the region name i sounds like; ``regions[i]``: that of the answer (None: no known place).

    The interval is the jackknife's over people.
    """
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys([*sounds, *(one for one in regions if one is not None)]))}
    sound_N = np.array([kinds[one] for one in sounds], dtype=np.int64)
    region_N = np.array([-1 if one is None else kinds[one] for one in regions], dtype=np.int64)
    n = len(sound_N)
    if n < 3:
        return Estimate(None, n=n, reason="fewer than 3 people")
    sound_K = np.bincount(sound_N, minlength=len(kinds)).astype(np.float64)
    region_K = np.bincount(region_N[region_N >= 0], minlength=len(kinds)).astype(np.float64)
    agree_N = (sound_N == region_N).astype(np.float64)
    pull = _pull(agree_N.sum(), float(sound_K @ region_K), n)
    # Leaving out person i subtracts one from the counts of their sound and their region.
    there_N = region_N >= 0
    dealt_N = float(sound_K @ region_K) - region_K[sound_N] - np.where(there_N, sound_K[np.maximum(region_N, 0)], 0) + agree_N
    without_N = _pull(agree_N.sum() - agree_N, dealt_N, n - 1)
    error = float(np.sqrt((n - 1) / n * ((without_N - without_N.mean()) ** 2).sum()))
    half = float(t_upper(0.025, n - 1)) * error
    return Estimate(float(pull), float(pull) - half, float(pull) + half, n)


def _pull(agreeing: np.ndarray | float, dealt: np.ndarray | float, n: int) -> np.ndarray:
    """Agreement minus that of randomly permuted answers; n / (n - 1) corrects for fixed points."""
    return np.asarray((np.asarray(agreeing) / n - np.asarray(dealt) / n**2) * n / (n - 1))
