"""The share of a split that was trained on: none, half and all of it, by tokens and by labelled texts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from glassformer.data import overlap
from glassformer.data.overlap import PHRASE, WINDOW, share_in_train, share_read, window_hashes


def of(tokens: np.ndarray) -> SimpleNamespace:
    return SimpleNamespace(tokens=tokens)


def test_windows_of_tokens() -> None:
    draw = np.random.default_rng(0)
    train, other = draw.integers(0, 90, 5000), draw.integers(0, 90, 1000)
    assert share_in_train(of(train), of(other)) == 0.0
    assert share_in_train(of(train), of(train[700:1900])) == 1.0
    half = np.concatenate([train[:1000], other])
    assert share_in_train(of(train), of(half)) == pytest.approx(0.5, abs=0.02)  # windows across the border are new


@pytest.mark.parametrize("window", [1, 2, 3, PHRASE, 13, 31, WINDOW, 40])
def test_the_hash_of_a_window_is_a_polynomial_in_its_tokens(window: int) -> None:
    tokens = np.random.default_rng(2).integers(0, 50_000, 60)
    base = 0x9E3779B97F4A7C15
    by_hand = [
        sum((int(token) + 1) * base ** (window - 1 - place) for place, token in enumerate(tokens[first : first + window]))
        % 2**64
        for first in range(len(tokens) - window + 1)
    ]
    assert window_hashes(tokens, window).tolist() == by_hand
    assert len(window_hashes(tokens[: window - 1], window)) == 0


def test_order_matters_within_a_window() -> None:
    tokens = np.arange(3 * WINDOW)
    assert share_in_train(of(tokens), of(tokens[::-1].copy())) == 0.0


def test_too_short_to_tell() -> None:
    assert share_in_train(of(np.arange(500)), of(np.arange(WINDOW - 1))) is None
    assert share_in_train(of(np.arange(500)), [1, 2]) is None


def test_labelled_texts_say_themselves() -> None:
    assert share_in_train(None, SimpleNamespace(seen=np.array([True, False, False, True]))) == 0.5


def test_text_far_back_in_the_training_text_is_found_too(monkeypatch) -> None:
    """A text is searched a piece at a time; a window that lies in two pieces counts."""
    draw = np.random.default_rng(1)
    train = draw.integers(0, 90, 7000)
    monkeypatch.setattr(overlap, "AT_ONCE", 500)
    assert share_in_train(of(train), of(train[5980:6800])) == 1.0
    assert share_in_train(of(train), of(train[480:520])) == 1.0
    monkeypatch.setattr(overlap, "MOST_TOKENS", 6000)
    assert share_in_train(of(train), of(train[6100:6800])) == 0.0


def test_what_a_parent_has_read() -> None:
    """Text of text; labelled texts of labelled texts; labelled texts of text, by their first and last tokens."""
    draw = np.random.default_rng(2)
    train = draw.integers(97, 123, 900)
    assert share_read(of(train), of(train[100:300]), None) == 1.0
    known, new = ("".join(map(chr, draw.integers(97, 123, 20))) for _ in range(2))
    one, other = SimpleNamespace(texts=[known]), SimpleNamespace(texts=[known, new])
    assert share_read(one, other, None) == 0.5

    def encode(text: str) -> list[int]:
        return [ord(letter) for letter in text]

    read = of(np.concatenate([train, encode(known), train]))
    assert share_read(read, other, encode) == 0.5
    assert share_read(read, SimpleNamespace(texts=[known[: PHRASE - 1]]), encode) is None
    assert share_read(read, SimpleNamespace(ids=[1]), encode) is None
