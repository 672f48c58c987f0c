"""The definition of generation: the next token of one text, from its whole window, without memory or neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.foundation.errors import Diverged
from glassformer.generation.sampling import Sampling, choose
from glassformer.generation.sequence import Text
from glassformer.model.kv_cache import Memory
from glassformer.model.transformer import Transformer


def next_token(model: Transformer, text: Text, sampling: Sampling) -> int:
    """The text's next id."""
    return choose_next(next_scores(model, text), text, sampling)


def next_scores(model: Transformer, text: Text, memory: Memory | None = None) -> Tensor:
    """The scores of the text's next id, [1, V]. A memory only listens: it is given the whole window."""
    features_1TD = model.features(torch.tensor([text.window], device=model.embedding.weight.device), memory=memory)
    scores_1V = model.head(features_1TD[:, -1:])[:, -1].float()
    if not scores_1V.isfinite().all():
        raise Diverged("The scores of the next token are not finite numbers, so none can be chosen; use an earlier checkpoint.")
    return scores_1V


def choose_next(scores_1V: Tensor, text: Text, sampling: Sampling) -> int:
    """The text's next id, from its scores."""
    device = scores_1V.device
    seen_1V = seen_ids([text], scores_1V.shape[1]).to(device) if sampling.repetition_penalty != 1.0 else None
    keys_1, index_1 = (torch.tensor([value], device=device) for value in (text.key, len(text.new)))
    return int(choose(scores_1V, sampling, seen_BV=seen_1V, keys_B=keys_1, index_B=index_1).ids_B)


def seen_ids(texts: list[Text], vocabulary: int) -> Tensor:
    """bool [B, V]: the ids that stand in each text, prompt and all."""
    seen_BV = torch.zeros(len(texts), vocabulary, dtype=torch.bool)
    for row, text in enumerate(texts):
        seen_BV[row, text.ids] = True
    return seen_BV
