"""The share of a split that was trained on: none, half and all of it, by tokens and by labelled texts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from glassformer.data.overlap import WINDOW, share_in_train


def of(tokens: np.ndarray) -> SimpleNamespace:
    return SimpleNamespace(tokens=tokens)


def test_windows_of_tokens() -> None:
    draw = np.random.default_rng(0)
    train, other = draw.integers(0, 90, 5000), draw.integers(0, 90, 1000)
    assert share_in_train(of(train), of(other)) == 0.0
    assert share_in_train(of(train), of(train[700:1900])) == 1.0
    half = np.concatenate([train[:1000], other])
    assert share_in_train(of(train), of(half)) == pytest.approx(0.5, abs=0.02)  # windows across the border are new


def test_order_matters_within_a_window() -> None:
    tokens = np.arange(3 * WINDOW)
    assert share_in_train(of(tokens), of(tokens[::-1].copy())) == 0.0


def test_too_short_to_tell() -> None:
    assert share_in_train(of(np.arange(500)), of(np.arange(WINDOW - 1))) is None
    assert share_in_train(of(np.arange(500)), [1, 2]) is None


def test_labelled_texts_say_themselves() -> None:
    assert share_in_train(None, SimpleNamespace(seen=np.array([True, False, False, True]))) == 0.5
