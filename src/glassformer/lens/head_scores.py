"""Scores of each head on repeated random tokens: previous-token, induction, duplicate-token and copying.

A random sequence is repeated once. In the repetition, a previous-token head attends one position back, a duplicate-token head
to the same token in the first copy, an induction head to the token after it (Olsson et al. 2022), which comes next. Chance is
about one over the number of visible tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.foundation.seeds import derive_seed
from glassformer.lens.capture import capture
from glassformer.lens.places import Places
from glassformer.lens.readouts import Floats, weight_at

ROWS, LONGEST = 8, 32
"""The number of sequences, and their length if the context has room for two copies."""


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
    mean = {name: _mean(second, back) for name, back in (("previous", 1), ("duplicate", stretch), ("induction", stretch - 1))}
    copying = _copying(places, found.values, ids_BT.to(device), attention_BLHTS) if len(outputs) == len(names) else None
    induction = mean["induction"] if network.dims.causal else None
    return HeadScores(mean["previous"], mean["duplicate"], induction, copying, stretch)


def _mean(attention_BLHTS: Floats, back: int) -> Floats:
    return np.mean([weight_at(row_LHTS, back) for row_LHTS in attention_BLHTS], axis=0)


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
    for layer, block in enumerate(network.blocks):
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
