"""What attention heads do, in numbers: on a text (entropy, distance, rollout, validity), and on repeated random tokens.

Patterns are arrays: L layers, H heads, T queries, S keys. For the scores previous, duplicate, induction and copying a random
sequence is repeated once. In the repetition, a previous-token head attends one position back, a duplicate-token head to the
same token in the first copy, an induction head to the token after it (Olsson et al. 2022), which comes next. Chance is about
one over the number of visible tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.foundation.seeds import derive_seed
from glassformer.lens.capture import Places, capture

Floats = npt.NDArray[np.floating]
TOLERANCE = 1e-4  # a float32 softmax over a thousand keys is within 1e-6 of one
ROWS, LONGEST = 8, 32
"""The number of sequences, and their length if the context has room for two copies."""


def check_rows(
    attention_LHTS: Floats, visible_TS: npt.NDArray[np.bool_], averages_L: Sequence[bool] | None = None
) -> list[str]:
    """Faults of a pattern: rows must sum to one (zero where nothing is visible), and masked keys have no weight.

    ``averages_L``: of which layers the rows must sum to one (None: of all); in the others they must be finite.
    """
    faults = []
    wanted_T = np.asarray(visible_TS.any(axis=-1), np.float64)
    off_LHT = np.abs(np.asarray(attention_LHTS.sum(axis=-1, dtype=np.float64)) - wanted_T)
    if averages_L is not None:
        off_LHT = off_LHT * np.asarray(averages_L, np.float64)[:, None, None]  # nan stays nan
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


@dataclass(frozen=True)
class HeadScores:
    """Each [L, H], or None where undefined for this network. Weights are means over queries and sequences."""

    previous: Floats
    duplicate: Floats
    induction: Floats | None
    """None for bidirectional networks, which need no induction."""
    copying: Floats | None
    """How much the head increases the logits of the tokens it attends to, in standard deviations over the vocabulary."""
    stretch: int


def repeated_rows(places: Places, *, seed: int = 0, avoid: frozenset[int] = frozenset()) -> tuple[Tensor, int]:
    """Rows of random tokens, each a sequence repeated once [ROWS, 2 n]; and n. A sequence has no duplicates."""
    dims = places.network.dims
    usable = torch.tensor([token for token in range(dims.vocabulary) if token not in avoid])
    stretch = min(LONGEST, dims.context // 2, len(usable))
    generator = torch.Generator().manual_seed(derive_seed(seed, "repeated"))
    rows = [usable[torch.randperm(len(usable), generator=generator)[:stretch]].repeat(2) for _ in range(ROWS)]
    return torch.stack(rows), stretch


def head_scores(places: Places, *, seed: int = 0, avoid: frozenset[int] = frozenset()) -> HeadScores | None:
    """None if a layer has no attention pattern, or context or vocabulary are too small for a sequence of two tokens."""
    network, names = places.network, places.patterns
    if any(name is None for name in names) or not names:
        return None
    ids_BT, stretch = repeated_rows(places, seed=seed, avoid=avoid)
    if stretch < 2:
        return None
    device = next(network.parameters()).device
    outputs = [name for name in places.outputs if name is not None]
    found = capture(places, ids_BT.to(device), [*(name for name in names if name), *outputs])
    attention_BLHTS = torch.stack([found.values[name] for name in names if name], dim=1).float().cpu().numpy()
    attention_BLHTS = attention_BLHTS[..., -2 * stretch :, -2 * stretch :]  # without prefix vectors
    second = attention_BLHTS[..., stretch:, :]
    previous, duplicate, induction = (
        np.mean([weight_at(row_LHTS, back) for row_LHTS in second], axis=0) for back in (1, stretch, stretch - 1)
    )
    copying = _copying(places, found.values, ids_BT.to(device), attention_BLHTS) if len(outputs) == len(names) else None
    return HeadScores(previous, duplicate, induction if network.dims.causal else None, copying, stretch)


def _copying(places: Places, values: Any, ids_BT: Tensor, attention_BLHTS: Floats) -> Floats | None:
    """Each head's output alone, mapped to logits by the model's head."""
    network: Any = places.network
    if (
        getattr(network, "blocks", None) is None
        or network.dims.num_outputs != network.dims.vocabulary
        or not network.dims.causal
    ):
        return None
    scores = []
    for layer, block in enumerate(network.blocks[number] for number in network.order):
        attention = next((part for part in block.modules() if hasattr(part, "merge") and hasattr(part, "output")), None)
        if attention is None:
            return None
        z_BHTE, weights_BHTS = values[places.outputs[layer]], torch.from_numpy(attention_BLHTS[:, layer]).to(ids_BT.device)
        with torch.no_grad():
            scores.append([_raised(network, attention, z_BHTE, head, ids_BT, weights_BHTS) for head in range(z_BHTE.shape[1])])
    return np.array(scores)


def _raised(network: Any, attention: Any, z_BHTE: Tensor, head: int, ids_BT: Tensor, weights_BHTS: Tensor) -> float:
    without_BHTE = z_BHTE.clone()
    without_BHTE[:, head] = 0.0
    written_BTD = attention.output(attention.merge(z_BHTE)) - attention.output(attention.merge(without_BHTE))
    scores_BTV = network.head(written_BTD).float()
    scores_BTV = scores_BTV - network.head(torch.zeros_like(written_BTD[:1, :1])).float()  # a bias belongs to no head
    spread_BT1 = scores_BTV.std(dim=-1, keepdim=True).clamp(min=1e-12)
    standard_BTV = (scores_BTV - scores_BTV.mean(dim=-1, keepdim=True)) / spread_BT1
    at_keys_BTS = standard_BTV.gather(2, ids_BT.unsqueeze(1).expand(-1, ids_BT.shape[1], -1))
    return float((at_keys_BTS * weights_BHTS[:, head]).sum(dim=-1).mean())
