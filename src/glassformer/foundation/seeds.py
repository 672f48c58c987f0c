"""One seed -> every other seed, by arithmetic.

``derive_seed(7, "batch", 120)`` is the same number on every machine and in every process, so nothing about randomness
has to be carried along: whoever knows the seed, the purpose and the step knows the numbers. Imports no torch.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np


@lru_cache(maxsize=4096, typed=True)  # every batch of texts asks for the same few
def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose. Different purposes give unrelated numbers."""
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def mixed_bits(numbers: np.ndarray) -> np.ndarray:
    """uint64 -> uint64, neighbours become unrelated: the finaliser of splitmix64 (Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
