"""The blocks of one text, in order -> how much another stretch of that text would move a mean over them. Imports no torch.

Neighbours are alike, so blocks are no sample of independent units: what moves the mean of a stretch are the slow waves along
it, and their size is what the variance is taken from.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from glassformer.foundation.distributions import Floats

STRETCHES = ("block", "window")
"""Units that are consecutive stretches of one text, so that neighbours are alike."""


def block_variance(parts: Floats) -> Floats:
    """The variance of a weighted mean from ``parts[..., block]``: each block's weight times its distance from that mean."""
    blocks = parts.shape[-1]
    return np.asarray(blocks * ((parts @ slow_waves(blocks)) ** 2).mean(axis=-1))


def waves(blocks: int) -> int:
    """How many slow waves the variance along a text is taken from: few, so that neighbours that are alike do not fool it.

    A quarter of blocks^(2/3), judged by simulation: 5 to 6 % false alarms for lag-1 correlations of 0, .3 and .6.
    """
    return max(1, round(0.25 * blocks ** (2.0 / 3.0)))


@lru_cache(maxsize=64)
def slow_waves(blocks: int) -> Floats:
    """[block, wave]: the first cosines along the text, of length 1 each and orthogonal to a constant."""
    place = (np.arange(blocks) + 0.5) / blocks
    return np.asarray(math.sqrt(2.0 / blocks) * np.cos(np.pi * place[:, None] * np.arange(1, waves(blocks) + 1)))
