"""nanoGPT's training rate from its output, with a stand-in for nanoGPT and one for the clock: 10 ms per iteration."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from glassformer.benchmark import nanogpt_train
from glassformer.benchmark.nanogpt_train import train_nanogpt
from glassformer.benchmark.peers import Sizes
from glassformer.foundation.errors import GlassformerError

SIZES = Sizes(width=12, layers=2, heads=3, context=10, vocabulary=7)
SETTINGS = {"batch": 3, "steps": 20, "device": "cpu", "compiled": False}


def test_tokens_by_seconds_between_two_iterations(nanogpt, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(nanogpt_train, "time", SimpleNamespace(perf_counter=lambda: 0.01 * next(clock)))
    rate, peak = train_nanogpt(nanogpt, SIZES, np.zeros(50), **SETTINGS)
    assert peak == 0  # it has no GPU
    assert rate == pytest.approx(3 * 10 / 0.01)
    assert sorted(file.name for file in nanogpt.iterdir()) == ["configurator.py", "model.py", "train.py"]


def test_when_it_fails_its_last_words_are_repeated(broken_nanogpt):
    with pytest.raises(GlassformerError, match="out of memory"):
        train_nanogpt(broken_nanogpt, SIZES, np.zeros(50), **SETTINGS)
