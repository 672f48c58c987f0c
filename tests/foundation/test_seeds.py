"""Derived seeds: the same everywhere, unrelated between purposes."""

from __future__ import annotations

import hashlib

from glassformer.foundation.seeds import derive_seed


def test_by_hand() -> None:
    digest = hashlib.sha256(b"7/batch/120").hexdigest()
    assert derive_seed(7, "batch", 120) == int(digest[:16], 16) // 2
    assert derive_seed(7, "batch", 120) == 4046432300879175842  # the number itself: saved runs depend on it


def test_purposes_steps_and_seeds_do_not_meet() -> None:
    seeds = {derive_seed(seed, what, step) for seed in range(20) for what in ("step", "epoch", "init") for step in range(50)}
    assert len(seeds) == 20 * 3 * 50
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_bits_are_even() -> None:
    ones = sum(bin(derive_seed(0, step)).count("1") for step in range(1000))
    assert abs(ones / 63_000 - 0.5) < 0.01  # standard deviation 0.002
