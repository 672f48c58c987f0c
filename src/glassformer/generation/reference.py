"""The reference implementation: a sequence -> its next token, from its whole window, without a KV cache or a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.foundation.errors import Diverged
from glassformer.generation.sampling import Sampling, choose
from glassformer.generation.sequence import TokenSequence
from glassformer.model.transformer import Transformer


def next_token(model: Transformer, sequence: TokenSequence, sampling: Sampling) -> int:
    """The sequence's next id."""
    return choose_next(next_scores(model, sequence), sequence, sampling)


def next_scores(model: Transformer, sequence: TokenSequence) -> Tensor:
    """The scores of the next id, [1, V]."""
    features_1TD = model.features(torch.tensor([sequence.window], device=model.embedding.weight.device))
    scores_1V = model.head(features_1TD[:, -1:])[:, -1].float()
    if not scores_1V.isfinite().all():
        raise Diverged("The scores of the next token are not finite numbers, so none can be chosen; use an earlier checkpoint.")
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
