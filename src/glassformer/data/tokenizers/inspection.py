"""Inspects a tokenizer: its merges in order, its longest and rarest tokens, and how one word is merged.

Returns plain values (for JSON, tables and figures). Works for every kind; without merges their list is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.data.tokenizers.base import Tokenizer, in_batches
from glassformer.data.tokenizers.bpe import BPETokenizer


@dataclass(frozen=True)
class Usage:
    """How often each id occurs in a text of ``num_bytes`` bytes."""

    counts: np.ndarray
    num_bytes: int

    @property
    def num_tokens(self) -> int:
        return int(self.counts.sum())


def count_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> Usage:
    """Encodes all texts, a batch at a time, and counts."""
    counts, num_bytes = np.zeros(tokenizer.size, np.int64), 0
    for batch in in_batches(texts):
        counts += np.bincount(tokenizer.encode_batch(batch)[0].astype(np.int64), minlength=tokenizer.size)
        num_bytes += sum(len(text.encode("utf-8", "surrogatepass")) for text in batch)
    return Usage(counts, num_bytes)


def describe(tokenizer: Tokenizer, usage: Usage | None = None, *, top: int = 10) -> dict[str, Any]:
    """All facts as one JSON document. Those that depend on a text are None without one."""
    lengths = tokenizer.byte_lengths()
    fixed = lengths[np.isfinite(lengths) & (lengths > 0)]
    marks = {name: getattr(tokenizer, f"{name}_id") for name in ("start", "stop", "unknown", "pad")}
    in_text = usage is not None and usage.num_tokens > 0
    return {
        "kind": tokenizer.kind,
        "size": tokenizer.size,
        "level": tokenizer.pairs.level.name if isinstance(tokenizer, BPETokenizer) else None,
        "marks": {name: token_id for name, token_id in marks.items() if token_id is not None},
        "bytes_per_token": {
            "vocabulary": float(fixed.mean()) if len(fixed) else None,
            "text": usage.num_bytes / usage.num_tokens if usage is not None and in_text else None,
        },
        "longest": _longest(tokenizer, lengths, top),
        "rarest": _rarest(tokenizer, usage, top) if usage is not None and in_text else None,
        "never_produced": _never(tokenizer, usage) if usage is not None and in_text else None,
        "merges": list_merges(tokenizer),
    }


def list_merges(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The merges in the order they were learned; none for a kind that has none, or hides them."""
    if not isinstance(tokenizer, BPETokenizer):
        return []
    text = [tokenizer.token_text(token_id) for token_id in range(tokenizer.size)]
    return [
        {"rank": rank, "left": text[left], "right": text[right], "merged": text[merged], "id": merged}
        for rank, (left, right, merged) in enumerate(tokenizer.pairs.merges, start=1)
    ]


def follow(tokenizer: Tokenizer, text: str, *, longest: int | None = None, most: int | None = None) -> list[dict[str, Any]]:
    """For each word of ``text``: its symbols, every merge with the tokens after it, and its ids.

    ``spans`` says of how many symbols each token is made. Ranks count from 1. What is written grows with the square of a
    word: one of more symbols than ``longest`` is not followed, nor one that would make it more than ``most`` symbols in all;
    its ``steps`` are None.
    """
    if not isinstance(tokenizer, BPETokenizer):
        ids = tokenizer.encode(text)
        shown = [tokenizer.token_text(token_id) for token_id in ids]
        return [{"word": text, "symbols": shown, "steps": [], "ids": ids}]
    pairs, found, followed = tokenizer.pairs, [], 0
    for word in pairs.level.words(text):
        spelled = pairs.spell(word)
        short = longest is None or len(spelled) <= longest
        steps = _steps(tokenizer, spelled) if short and (most is None or followed + len(spelled) <= most) else None
        followed += 0 if steps is None else len(spelled)
        symbols = [tokenizer.token_text(ord(character)) for character in spelled]
        # the definition where it can be seen, the fast path (which is no square) where it cannot
        ids = tokenizer.encode(word) if steps is None else [ord(character) for character in pairs.merge(spelled)]
        found.append({"word": word, "symbols": symbols, "steps": steps, "ids": ids})
    return found


def _steps(tokenizer: BPETokenizer, spelled: str) -> list[dict[str, Any]]:
    pairs, text = tokenizer.pairs, tokenizer.token_text
    spans = [1] * len(spelled)
    steps = []
    for step in pairs.steps(spelled):
        left, right, merged = pairs.merges[step.rank]
        spans[step.place : step.place + 2] = [sum(spans[step.place : step.place + 2])]
        steps.append(
            {"rank": step.rank + 1, "left": text(left), "right": text(right), "merged": text(merged), "place": step.place}
            | {"tokens": [text(token_id) for token_id in step.word], "spans": list(spans)}
        )
    return steps


def _longest(tokenizer: Tokenizer, lengths: np.ndarray, top: int) -> list[dict[str, Any]]:
    texts = [tokenizer.token_text(token_id) for token_id in range(tokenizer.size)]
    size = [len(text) if np.isnan(length) else length for text, length in zip(texts, lengths)]
    order = sorted(range(tokenizer.size), key=lambda token_id: (-size[token_id], token_id))[:top]
    return [{"id": token_id, "text": texts[token_id], "bytes": _integer(lengths[token_id])} for token_id in order]


def _rarest(tokenizer: Tokenizer, usage: Usage, top: int) -> list[dict[str, Any]]:
    order = [token_id for token_id in np.argsort(usage.counts, kind="stable").tolist() if usage.counts[token_id] > 0][:top]
    return [
        {"id": token_id, "text": tokenizer.token_text(token_id), "count": int(usage.counts[token_id])} for token_id in order
    ]


def _never(tokenizer: Tokenizer, usage: Usage) -> list[dict[str, Any]]:
    never = np.flatnonzero(usage.counts == 0).tolist()
    return [{"id": token_id, "text": tokenizer.token_text(token_id)} for token_id in never]


def _integer(length: float) -> int | None:
    return None if np.isnan(length) else int(length)
