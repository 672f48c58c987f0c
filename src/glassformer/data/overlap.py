"""Two splits -> the share of one that also stands in the other: whole texts, or windows of tokens. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glassformer.data.token_files import duplicates_of

WINDOW = 32
"""Tokens of a window: long enough that prose of two authors shares none, short enough for a line."""
SAMPLED = 2000
"""Windows of the second split that are searched for."""
PHRASE = 8
"""Tokens at both ends by which a labelled text is found in a row."""
TEXTS = ("texts", "pairs", "sources", "targets")
"""Where the kinds of data have their texts. Not questions: the text they are answered from has their words."""
MOST_TOKENS = 10_000_000
"""Tokens of a training text that are searched, its first ones, where only a share is wanted: about half a second."""
AT_ONCE = 1 << 20
"""Of which so many are in memory."""


def share_in_train(train: Any, split: Any) -> float | None:
    """The share of ``split`` that was trained on: of its labelled texts; of its documents or of its windows of tokens, the
    larger one. None: not known."""
    seen = getattr(split, "seen", None)
    if seen is not None:
        return float(np.mean(seen)) if len(seen) else None
    if not (hasattr(train, "tokens") and hasattr(split, "tokens")):
        return None
    wanted = window_hashes(np.asarray(split.tokens))
    if len(train.tokens) < WINDOW or not len(wanted):
        return None
    documents = 0.0
    if hasattr(train, "documents") and hasattr(split, "documents") and len(split.documents):
        documents = duplicates_of(train.documents["copy"], split.documents["copy"]).count / len(split.documents)
    sampled = wanted[np.linspace(0, len(wanted) - 1, min(SAMPLED, len(wanted))).astype(np.int64)]
    return max(documents, float(_found_in(train.tokens[:MOST_TOKENS], sampled, WINDOW).mean()))


def share_read(read: Any, split: Any, encode: Callable[[str], Any]) -> float | None:
    """The share of ``split`` that stands in the text that a parent was trained on, whatever kind each is. None: not known."""
    if hasattr(read, "tokens") and hasattr(split, "tokens"):
        return share_in_train(read, split)
    mine = _texts(split)
    if not mine:
        return None
    if texts := set(_texts(read)):
        return float(np.mean([one in texts for one in mine]))
    if not hasattr(read, "tokens"):
        return None
    hashes = [window_hashes(np.asarray(encode(text)), PHRASE) for text in mine[:SAMPLED]]
    ends = [end for one in hashes if len(one) for end in (one[0], one[-1])]
    if not ends:
        return None
    return float(_found_in(read.tokens[:MOST_TOKENS], np.array(ends, np.uint64), PHRASE).reshape(-1, 2).all(1).mean())


def _found_in(tokens_N: np.ndarray, wanted: np.ndarray, window: int) -> np.ndarray:
    """Which hashes of windows stand in a text, a piece of it at a time."""
    ordered, found = np.unique(wanted), np.zeros(len(wanted), np.bool_)
    for first in range(0, len(tokens_N), AT_ONCE):
        known = window_hashes(np.asarray(tokens_N[first : first + AT_ONCE + window - 1]), window)
        places = np.minimum(np.searchsorted(ordered, known), len(ordered) - 1)
        found |= np.isin(wanted, np.unique(known[ordered[places] == known]))
    return found


def share_of_judged(rows: Sequence[np.ndarray], judged: Any, train: Any, encode: Callable[[str], Any]) -> float | None:
    """The share of drawn training rows (token ids) that is text of the judged split and not of the training split: of their
    windows, or for labelled texts and pairs of the rows that hold a whole one. None: not known."""
    if hasattr(judged, "tokens"):
        window = min([WINDOW, *(len(row) for row in rows)])
        drawn = np.concatenate([window_hashes(row, window) for row in rows])
        if not len(drawn):
            return None
        inside = _found_in(judged.tokens, drawn, window)
        if inside.any() and hasattr(train, "tokens"):
            inside[inside] = ~_found_in(train.tokens, drawn[inside], window)
        return float(inside.mean())
    mine, trained = _texts(judged), set(_texts(train))
    ends: dict[int, set[int]] = {}
    for text in mine[:SAMPLED]:
        ids = np.asarray(encode(text)) if text not in trained else np.zeros(0, np.int64)
        if len(hashes := window_hashes(ids, PHRASE)):
            ends.setdefault(int(hashes[0]), set()).add(int(hashes[-1]))
    if not ends:
        return None
    found = [set(window_hashes(row, PHRASE).tolist()) for row in rows]
    return float(np.mean([any(ends[first] & row for first in ends.keys() & row) for row in found]))


def _texts(items: Any) -> list[str]:
    found = (getattr(items, name, None) for name in TEXTS)
    return [text for texts in found if isinstance(texts, tuple | list) for text in texts if isinstance(text, str)]


def window_hashes(tokens_N: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """A number for each window of so many tokens, equal for equal windows: the sum of (token + 1) base^(tokens after
    it), where products wrap around, as hashes may. Two windows make one of twice the length, so 32 tokens take five rounds."""
    if len(tokens_N) < window:
        return np.zeros(0, np.uint64)
    of_length, length = tokens_N.astype(np.uint64) + np.uint64(1), 1  # hashes of windows of one token
    for bit in f"{window:b}"[1:]:
        of_length = of_length[:-length] * _power(length) + of_length[length:]
        length *= 2
        if bit == "1":
            of_length = of_length[:-1] * _power(1) + (tokens_N[length:].astype(np.uint64) + np.uint64(1))
            length += 1
    return of_length


def _power(exponent: int) -> np.uint64:
    return np.uint64(pow(0x9E3779B97F4A7C15, exponent, 1 << 64))
