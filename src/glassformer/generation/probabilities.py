"""A network and a generated sequence -> the probability of every new token where it was chosen, and what stood beside it.

One pass for each window the generation used, so the figures are those of the reference implementation. The probabilities are
the network's own: temperature, top-k and the like change which token is taken, not what the network thinks of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.generation.sequence import window_start
from glassformer.model.transformer import Transformer


@dataclass(frozen=True)
class TokenChoice:
    """One chosen id, its probability, and the most probable ids at its place with theirs."""

    token: int
    probability: float
    alternatives: tuple[tuple[int, float], ...]


def token_choices(model: Transformer, prompt: Sequence[int], new: Sequence[int], *, top: int = 5) -> list[TokenChoice]:
    """What the network gave each id of ``new``, which continues ``prompt``."""
    ids, context, found = [*prompt, *new], model.dims.context, list[TokenChoice]()
    device = model.embedding.weight.device
    places = list(range(len(prompt), len(ids)))
    with torch.no_grad():
        while places:
            start = window_start(places[0], context)
            here = [place for place in places if window_start(place, context) == start]
            features_1TD = model.features(torch.tensor([ids[start : here[-1]]], device=device))
            scores_TV = model.head(features_1TD[:, here[0] - start - 1 :])[0].float()
            chances_TV = scores_TV.softmax(-1).cpu()
            best = chances_TV.topk(min(top, chances_TV.shape[-1]))
            for row, place in enumerate(here):
                beside = tuple(zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True))
                found.append(TokenChoice(ids[place], float(chances_TV[row, ids[place]]), beside))
            places = places[len(here) :]
    return found
