"""The reference implementation: a sequence -> its next token, from its whole window, without a KV cache or a batch.

Also the probability of every token of a generated sequence, by the same passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.foundation.errors import Diverged
from glassformer.generation.sampling import Sampling, choose
from glassformer.generation.sequence import TokenSequence, window_start
from glassformer.model.network import Network


def device_of(model: nn.Module) -> torch.device:
    """Where its weights are."""
    return next(model.parameters()).device


def next_token(model: Network, sequence: TokenSequence, sampling: Sampling) -> int:
    """The sequence's next id."""
    return choose_next(next_scores(model, sequence), sequence, sampling)


def next_scores(model: Network, sequence: TokenSequence) -> Tensor:
    """The scores of the next id, [1, V]."""
    features_1TD = model.features(torch.tensor([sequence.window], device=device_of(model)))
    scores_1V = model.head(features_1TD[:, -1:])[:, -1].float()
    if not scores_1V.isfinite().all():
        raise Diverged(
            "The scores of the next token are not finite numbers, so none can be chosen; use an earlier checkpoint.",
            reason="scores-not-finite",
        )
    return scores_1V


def choose_next(scores_1V: Tensor, sequence: TokenSequence, sampling: Sampling) -> int:
    """The next id, from its scores."""
    device = scores_1V.device
    seen_1V = seen_ids([sequence], scores_1V.shape[1]).to(device) if sampling.repetition_penalty != 1.0 else None
    seeds_1, index_1 = (torch.tensor([value], device=device) for value in (sequence.seed, len(sequence.new_ids)))
    return int(choose(scores_1V, sampling, seen_BV=seen_1V, seeds_B=seeds_1, index_B=index_1).ids_B)


def seen_ids(sequences: list[TokenSequence], vocabulary: int) -> Tensor:
    """bool [B, V]: the ids in each sequence, prompt included."""
    seen_BV = torch.zeros(len(sequences), vocabulary, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        seen_BV[row, sequence.ids] = True
    return seen_BV


@dataclass(frozen=True)
class TokenChoice:
    """One chosen id, its probability, and the most probable ids at its place with theirs."""

    token: int
    probability: float
    alternatives: tuple[tuple[int, float], ...]


def token_choices(model: Network, prompt: Sequence[int], new: Sequence[int], *, top: int = 5) -> list[TokenChoice]:
    """The probability of each id of ``new``, which continues ``prompt``, and the most probable ids at its place.

    The probabilities are the network's own: temperature, top-k and the like change which token is taken, not these.
    """
    ids, context, found = [*prompt, *new], model.dims.context, list[TokenChoice]()
    device = device_of(model)
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
