"""The pull of sound: by hand, none where answers ignore names, one for answers that follow them."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.knowledge.sound import pull_of_sound


def slow(sounds, regions) -> float:
    """Agreement, less that over all pairs of different people."""
    n = len(sounds)
    agree = np.mean([s == r for s, r in zip(sounds, regions)])
    dealt = np.mean([sounds[i] == regions[j] for i in range(n) for j in range(n)])
    return (agree - dealt) * n / (n - 1)


def test_by_hand_and_against_the_slow_form():
    sounds, regions = [0, 0, 1, 1, 2], [0, 1, 1, 1, None]
    assert pull_of_sound(sounds, regions).value == pytest.approx(slow(sounds, regions))
    assert pull_of_sound([0, 1], [0, 1]).value is None


def test_the_interval_is_the_jackknife():
    rng = np.random.default_rng(0)
    sounds = rng.integers(0, 4, 30).tolist()
    regions = [int(one) if rng.random() < 0.5 else int(rng.integers(0, 4)) for one in sounds]
    found = pull_of_sound(sounds, regions)
    without = [slow(sounds[:i] + sounds[i + 1 :], regions[:i] + regions[i + 1 :]) for i in range(30)]
    error = np.sqrt(29 / 30 * np.sum((np.array(without) - np.mean(without)) ** 2))
    assert (found.high - found.low) / 2 == pytest.approx(2.0452296 * error, rel=1e-5)


@pytest.mark.parametrize("pull", [0.0, 0.4, 1.0])
def test_the_pull_that_is_there_is_found(pull):
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        sounds = rng.integers(0, 5, 150)
        regions = np.where(rng.random(150) < pull, sounds, rng.integers(0, 5, 150))
        found = pull_of_sound(sounds.tolist(), regions.tolist())
        inside += found.low <= 0.8 * pull <= found.high
    assert inside / 200 > 0.91
