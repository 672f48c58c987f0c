"""Two splits -> the share of one that also stands in the other: whole texts, or windows of tokens. Imports no torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.data.token_files import duplicates_of

WINDOW = 32
"""Tokens of a window: long enough that prose of two authors shares none, short enough for a line."""
SAMPLED = 2000
"""Windows of the second split that are searched for."""
MOST_TOKENS = 2_000_000
"""Tokens of the first split that are searched, its first ones."""


def share_in_train(train: Any, split: Any) -> float | None:
    """The share of ``split`` that was trained on: of its labelled texts; of its documents or of its windows of tokens, the
    larger one. None: not known."""
    seen = getattr(split, "seen", None)
    if seen is not None:
        return float(np.mean(seen)) if len(seen) else None
    if not (hasattr(train, "tokens") and hasattr(split, "tokens")):
        return None
    known, wanted = _window_hashes(np.asarray(train.tokens[:MOST_TOKENS])), _window_hashes(np.asarray(split.tokens))
    if not len(known) or not len(wanted):
        return None
    documents = 0.0
    if hasattr(train, "documents") and hasattr(split, "documents") and len(split.documents):
        documents = duplicates_of(train.documents["copy"], split.documents["copy"]).count / len(split.documents)
    sampled = wanted[np.linspace(0, len(wanted) - 1, min(SAMPLED, len(wanted))).astype(np.int64)]
    return max(documents, float(np.isin(sampled, known).mean()))


def _window_hashes(tokens_N: np.ndarray) -> np.ndarray:
    """A number for each window of ``WINDOW`` tokens, equal for equal windows; products wrap around, as hashes may."""
    count = len(tokens_N) - WINDOW + 1
    if count < 1:
        return np.zeros(0, np.uint64)
    values_N, found = tokens_N.astype(np.uint64) + np.uint64(1), np.zeros(count, np.uint64)
    for place in range(WINDOW):
        found = found * np.uint64(0x9E3779B97F4A7C15) + values_N[place : place + count]
    return found
