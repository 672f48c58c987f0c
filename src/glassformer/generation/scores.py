"""Prompts (ids) -> the scores of the next token by the decoder that generates; for checks of what really runs.

One token is generated after every prompt: all ids but the last are read into the KV cache, the last one takes a step. On
CUDA the step is that of the graphs and kernels in ``cuda/``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.generation.batch import BatchDecoder
from glassformer.generation.cuda.graphs import can_capture
from glassformer.generation.generate import cache_misleads, generation_modes
from glassformer.generation.reference import next_scores
from glassformer.generation.sampling import Sampling
from glassformer.generation.sequence import TokenSequence
from glassformer.model.transformer import Transformer


@torch.no_grad()
def scores_by_reference(model: Transformer, prompts: Sequence[Sequence[int]]) -> Tensor:
    """The same by the reference implementation: whole windows, no cache; float32 [N, V]."""
    return torch.cat([next_scores(model, sequence) for sequence in _sequences(model, prompts)])


@torch.no_grad()
def scores_in_generation(model: Transformer, prompts: Sequence[Sequence[int]]) -> Tensor:
    """Scores of the token after each prompt, float32 [N, V]. ``model``: in evaluation mode and its precision."""
    if cache_misleads(model):  # such a model generates by the reference implementation
        return scores_by_reference(model, prompts)
    sequences = _sequences(model, prompts)
    capacity = min(model.dims.context, max(map(len, prompts)) + 1)
    sampling = Sampling(temperature=1.0, top_k=None, top_p=None, repetition_penalty=1.0)
    with generation_modes(model):
        if can_capture(model) and model.new_cache().rewinds:
            from glassformer.generation.cuda.decoder import CUDADecoder  # its kernels import Triton

            on_device = CUDADecoder(model, sampling, rows=len(prompts), capacity=capacity)
            on_device.run(sequences)
            return on_device.scores_BV.float().clone()
        decoder = BatchDecoder(model, sampling, rows=len(prompts), capacity=capacity)
        decoder.run(sequences)
        assert decoder.scores_BV is not None
        return decoder.scores_BV


def _sequences(model: Transformer, prompts: Sequence[Sequence[int]]) -> list[TokenSequence]:
    return [
        TokenSequence(prompt_index=row, ids=list(ids), seed=row, context=model.dims.context, max_new_tokens=1)
        for row, ids in enumerate(prompts)
    ]
