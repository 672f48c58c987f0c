"""Salient spans of a text, in tokens: capitalised names and years.

Works on any tokenizer by looking at the text of each id once. Neighbouring capitalised words are one span ("New York").
Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

YEAR_DIGITS = 4


class _Ids(NamedTuple):
    """Properties of the text of each id, bool [V]."""

    word: np.ndarray  # has a letter or digit after its leading white space
    spaced: np.ndarray  # begins with one space before a word
    blank: np.ndarray  # is one space
    begins: np.ndarray  # begins with a letter or digit
    ends: np.ndarray  # ends with one
    upper: np.ndarray  # the first letter of the word is a capital
    digits: np.ndarray  # nothing but digits
    size: np.ndarray  # int64: characters of the word


def salient_spans(tokens_N: np.ndarray, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Where the spans begin and end (int64, rising, disjoint). ``texts``: the text of each id."""
    about = _about_ids(texts)
    ids = np.asarray(tokens_N, dtype=np.int64)
    ends_before = np.concatenate([[False], about.ends[ids[:-1]]])
    first = about.word[ids] & (~about.begins[ids] | ~ends_before)
    starts = np.flatnonzero(first)
    if not len(starts):
        return starts, starts
    going_on = about.begins[ids] & ends_before
    # A word ends at the first token that does not continue it.
    stops = np.flatnonzero(~going_on)
    ends = np.append(stops, len(ids))[np.searchsorted(stops, starts, side="right")]
    whole_digits = np.add.reduceat(np.append(~about.digits[ids], False), np.stack([starts, ends], 1).ravel())[::2] == 0
    length = np.add.reduceat(np.append(about.size[ids], 0), np.stack([starts, ends], 1).ravel())[::2]
    capital = about.upper[ids[starts]]
    year = whole_digits & (length == YEAR_DIGITS)
    chosen = np.flatnonzero(capital | year)
    return _joined(starts[chosen], ends[chosen], capital[chosen], ids, about)


def _joined(
    starts: np.ndarray, ends: np.ndarray, capital: np.ndarray, ids: np.ndarray, about: _Ids
) -> tuple[np.ndarray, np.ndarray]:
    """Capitalised words with nothing but one space between them become one span."""
    if len(starts) < 2:
        return starts, ends
    adjoin = (starts[1:] == ends[:-1]) & about.spaced[ids[starts[1:]]]
    apart = (starts[1:] == ends[:-1] + 1) & about.blank[ids[ends[:-1]]] & ~about.spaced[ids[starts[1:]]]
    together = (adjoin | apart) & capital[1:] & capital[:-1]
    first = np.concatenate([[True], ~together])
    last = np.concatenate([~together, [True]])
    return starts[first], ends[last]


def _about_ids(texts: Sequence[str]) -> _Ids:
    def inside(sign: str) -> bool:
        return sign.isalnum() or sign in "'’-"

    stripped = [text.lstrip() for text in texts]
    return _Ids(
        word=np.array([bool(word) and word[0].isalnum() for word in stripped]),
        spaced=np.array([text == " " + word and bool(word) for text, word in zip(texts, stripped)]),
        blank=np.array([text == " " for text in texts]),
        begins=np.array([bool(text) and inside(text[0]) for text in texts]),
        ends=np.array([bool(text) and inside(text[-1]) for text in texts]),
        upper=np.array([bool(word) and word[0].isupper() for word in stripped]),
        digits=np.array([word.isdigit() for word in stripped]),
        size=np.array([len(word) for word in stripped], dtype=np.int64),
    )
