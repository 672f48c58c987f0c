"""nanoGPT's training rate from its output, with a stand-in that sleeps 10 ms per iteration."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.benchmark.nanogpt_train import train_nanogpt
from glassformer.benchmark.peers import Sizes
from glassformer.foundation.errors import GlassformerError

SIZES = Sizes(width=12, layers=2, heads=3, context=10, vocabulary=7)
SETTINGS = {"batch": 3, "steps": 20, "device": "cpu", "compiled": False}


def test_tokens_by_seconds_between_two_iterations(nanogpt):
    rate, peak = train_nanogpt(nanogpt, SIZES, np.zeros(50), **SETTINGS)
    assert peak == 0  # it has no GPU
    assert 0.05 * 3 * 10 / 0.01 < rate <= 1.05 * 3 * 10 / 0.01  # never faster than the sleep; a busy machine is slower
    assert sorted(file.name for file in nanogpt.iterdir()) == ["configurator.py", "model.py", "train.py"]


def test_when_it_fails_its_last_words_are_repeated(broken_nanogpt):
    with pytest.raises(GlassformerError, match="out of memory"):
        train_nanogpt(broken_nanogpt, SIZES, np.zeros(50), **SETTINGS)
