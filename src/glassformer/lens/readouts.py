"""Statistics of attention patterns: validity, rollout, entropy, distance, weight at certain keys.

Arrays only: L layers, H heads, T queries, S keys. Knows no network.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
TOLERANCE = 1e-4  # a float32 softmax over a thousand keys is within 1e-6 of one


def check_rows(attention_LHTS: Floats, visible_TS: npt.NDArray[np.bool_]) -> list[str]:
    """Faults of a pattern: rows must sum to one (zero where nothing is visible), and masked keys have no weight."""
    faults = []
    wanted_T = np.asarray(visible_TS.any(axis=-1), np.float64)
    off_LHT = np.abs(np.asarray(attention_LHTS.sum(axis=-1, dtype=np.float64)) - wanted_T)
    if not off_LHT.max(initial=0.0) <= TOLERANCE:
        layer, head, row = np.unravel_index(np.nanargmax(np.where(np.isnan(off_LHT), np.inf, off_LHT)), off_LHT.shape)
        total = float(attention_LHTS[layer, head, row].sum(dtype=np.float64))
        faults.append(f"Row {row} of layer {layer}, head {head} sums to {total:.4g} instead of {wanted_T[row]:.0f}.")
    hidden_LHTS = np.where(visible_TS, 0.0, np.abs(attention_LHTS))
    if hidden_LHTS.max(initial=0.0) > 0:
        layer, head, row, key = np.unravel_index(np.argmax(hidden_LHTS), hidden_LHTS.shape)
        weight = hidden_LHTS[layer, head, row, key]
        faults.append(f"Layer {layer}, head {head}: position {row} gives {weight:.4g} to position {key}, which it may not see.")
    return faults


def visible_keys(
    num_queries: int, num_keys: int, *, causal: bool, hidden: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.bool_]:
    """True where a query may attend, [T, S]. The last query is at the last key."""
    ahead = np.arange(num_keys)[None, :] - (num_keys - num_queries) <= np.arange(num_queries)[:, None]
    visible = ahead if causal else np.ones((num_queries, num_keys), bool)
    return visible if hidden is None else visible & ~hidden[None, :]


def rollout(attention_LHTS: Floats) -> Floats:
    """Attention rollout by layer, [L, T, S] (Abnar and Zuidema 2020).

    Heads are averaged, half of each layer is the residual connection, and layers are multiplied.
    """
    size = attention_LHTS.shape[-1]
    through, found = np.eye(size), []
    for pattern_HTS in attention_LHTS.astype(np.float64):
        layer_TS = 0.5 * pattern_HTS.mean(axis=0) + 0.5 * np.eye(size)
        layer_TS /= layer_TS.sum(axis=-1, keepdims=True)
        through = layer_TS @ through
        found.append(through)
    return np.stack(found)


def entropy(attention_LHTS: Floats) -> Floats:
    """Mean over the queries of the entropy of their weights, in nats, [L, H]: 0 is all weight on one token."""
    p = attention_LHTS.astype(np.float64)
    by_row = -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)
    return _over_rows(by_row, p)


def distance(attention_LHTS: Floats) -> Floats:
    """Mean attention distance in positions, [L, H]."""
    queries, keys = attention_LHTS.shape[-2:]
    away_TS = np.abs(np.arange(queries)[:, None] + (keys - queries) - np.arange(keys)[None, :])
    p = attention_LHTS.astype(np.float64)
    return _over_rows((p * away_TS).sum(axis=-1), p)


def weight_at(attention_LHTS: Floats, back: int) -> Floats:
    """Mean weight on the key ``back`` positions before the query, over the queries that have one, [L, H]."""
    queries, keys = attention_LHTS.shape[-2:]
    rows = [row for row in range(queries) if 0 <= row + (keys - queries) - back < keys]
    if not rows:
        return np.full(attention_LHTS.shape[:2], np.nan)
    columns = [row + (keys - queries) - back for row in rows]
    return attention_LHTS[:, :, rows, columns].astype(np.float64).mean(axis=-1)


def weight_on_first(attention_LHTS: Floats) -> Floats:
    """Mean weight on the first token, over the queries after it, [L, H]."""
    if attention_LHTS.shape[-2] < 2:
        return np.full(attention_LHTS.shape[:2], np.nan)
    return attention_LHTS[:, :, 1:, 0].astype(np.float64).mean(axis=-1)


def _over_rows(by_row_LHT: Floats, p_LHTS: Floats) -> Floats:
    """The mean over the queries that see anything."""
    seen = p_LHTS.sum(axis=-1) > 0
    counted = np.maximum(seen.sum(axis=-1), 1)
    return np.where(seen, by_row_LHT, 0.0).sum(axis=-1) / counted
