"""One seed -> every other seed, by arithmetic.

``derive_seed(7, "batch", 120)`` is the same number on every machine and in every process, so nothing about randomness
has to be carried along: whoever knows the seed, the purpose and the step knows the numbers. Imports no torch.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache


@lru_cache(maxsize=4096, typed=True)  # every batch of texts asks for the same few
def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose. Different purposes give unrelated numbers."""
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
