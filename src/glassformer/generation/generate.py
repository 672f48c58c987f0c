"""Prompts (ids) -> new ids, greedy or sampled: the front door of generation.

``use_cache=False`` is the reference implementation (reference.py): one prompt at a time, the whole window for every token.
With a KV cache many prompts are run at once (batch.py), on a GPU by CUDA graphs and kernels (cuda/). In float32 the ids are
the same; in bf16 they may differ (docs/generation.md).
How a token is chosen is in sampling.py, what the model sees of a sequence and when it ends in sequence.py. Knows no
tokenizer: a sequence that should end at a string ends through the ``stop`` callable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeGuard

import torch
from torch import Tensor, nn

from glassformer.foundation.errors import BadArgument, ConfigError, DataError, OutOfMemory, UsageError
from glassformer.foundation.seeds import derive_seed
from glassformer.generation.batch import BatchDecoder, modules_of, rounds_as_float32
from glassformer.generation.cuda.graphs import can_capture
from glassformer.generation.reference import device_of, next_scores, next_token
from glassformer.generation.sampling import Sampling
from glassformer.generation.sequence import Generated, OnToken, Stop, TokenSequence
from glassformer.model.network import Network
from glassformer.model.transformer import Transformer

__all__ = ["Generated", "OnToken", "Stop", "generate"]

CACHE_BYTES = {"cpu": 2 << 30, "cuda": 16 << 30}
"""The most that the KV cache of one batch may take."""


def generate(
    model: Network,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    seeds: Sequence[int] | None = None,
    stop_ids: Collection[int] = (),
    stop: Stop | None = None,
    on_token: OnToken | None = None,
    start_id: int | None = None,
    use_cache: bool = True,
    batch_size: int = 64,
) -> list[Generated]:
    """Continues every prompt by up to ``max_new_tokens`` ids.

    ``seeds``: one per prompt (0, 1, 2, ... by default); the same prompt with the same seed gives the same ids, whatever
    stands beside it. ``start_id``: what an empty prompt starts with. ``use_cache=False`` is the reference implementation,
    one prompt at a time; with a KV cache up to ``batch_size`` prompts are run at once.
    """
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, repetition_penalty=repetition_penalty)
    _check(model, max_new_tokens, batch_size, len(prompts), seeds)
    sequences = [
        TokenSequence(
            prompt_index=n,
            ids=_prompt_ids(prompt, n, model, start_id),
            seed=derive_seed(seed, "generate"),
            context=model.dims.context,
            max_new_tokens=max_new_tokens,
            stop_ids=frozenset(stop_ids),
            stop=stop,
            on_token=on_token,
        )
        for n, (prompt, seed) in enumerate(zip(prompts, seeds or range(len(prompts))))
    ]
    training = [module for module in modules_of(model) if module.training]
    _set_training(training, False)
    try:
        with torch.no_grad(), generation_modes(model):
            _run(model, sequences, sampling, use_cache=use_cache, batch_size=batch_size)
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(
            f"Out of memory while generating {len(sequences)} sequences; use a smaller batch_size than {batch_size}.",
            reason="out-of-memory",
        ) from error
    finally:
        _set_training(training, True)
    return [Generated(sequence.new_ids, sequence.reason or "length") for sequence in sequences]


def _set_training(modules: list[nn.Module], training: bool) -> None:
    for module in modules:
        module.training = training


def _run(model: Network, sequences: list[TokenSequence], sampling: Sampling, *, use_cache: bool, batch_size: int) -> None:
    if not use_cache or not has_cache(model) or (cache_misleads(model) and not rounds_as_float32(model)):
        for sequence in sequences:
            while sequence.reason is None:
                sequence.accept(next_token(model, sequence, sampling))
    elif sequences:
        longest = max(len(sequence.ids) + sequence.remaining for sequence in sequences)
        capacity = min(model.dims.context, longest)
        rows = min(batch_size, len(sequences), rows_that_fit(model, capacity))
        if can_capture(model) and model.new_cache().rewinds:
            from glassformer.generation.cuda.decoder import run_cached_decoder  # its kernels import Triton

            run_cached_decoder(model, sampling, sequences, rows=rows, capacity=capacity)
        else:
            BatchDecoder(model, sampling, rows=rows, capacity=capacity).run(sequences)


def has_cache(model: Network) -> TypeGuard[Transformer]:
    """Whether it reads tokens in pieces; a network of a user's own reads its whole window again for every token."""
    return hasattr(model, "new_cache")


def cache_misleads(model: Transformer) -> bool:
    """Whether a part is known to give other scores with a cache. In float32 the comparison with the reference notices."""
    return any("cache" in part.breaks for part in model.config.parts)


def rows_that_fit(model: Transformer, capacity: int) -> int:
    """How many rows of keys and values the cache may hold; how many sequences run at once changes none of them."""
    room = CACHE_BYTES.get(device_of(model).type, 2 << 30)
    return max(1, room // max(1, model.cache_bytes(rows=1, capacity=capacity)))


@contextmanager
def generation_modes(model: Network) -> Iterator[None]:
    """Modes of torch that are wrong for generation on a GPU are off inside.

    The deterministic mode sorts the positions of every indexed write, which costs more than the step; the positions written
    in the cache are distinct, so no order can matter. cuDNN's attention makes a plan for every new shape, which takes as long
    as reading thousands of tokens, and the shapes of sequences keep changing.
    """
    if device_of(model).type != "cuda":
        yield
        return
    mode, plans = torch.get_deterministic_debug_mode(), torch.backends.cuda.cudnn_sdp_enabled()
    torch.set_deterministic_debug_mode("default")
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        torch.backends.cuda.enable_cudnn_sdp(plans)


def _prompt_ids(prompt: Sequence[int], prompt_index: int, model: Network, start_id: int | None) -> list[int]:
    ids = list(prompt)
    if not ids:
        if start_id is None:
            raise DataError(
                f"Prompt {prompt_index + 1} is empty, and this model has no start mark to begin from; give at least one token.",
                reason="empty-prompt",
            )
        ids = [start_id]
    vocabulary = model.dims.vocabulary
    if min(ids) < 0 or max(ids) >= vocabulary:
        unknown = next(token for token in ids if not 0 <= token < vocabulary)
        known = f"the ids 0 to {vocabulary - 1}"
        raise DataError(
            f"Prompt {prompt_index + 1} holds the id {unknown}, but this model knows {known}; use the run's own tokenizer.",
            reason="unknown-id",
        )
    return ids


def _check(model: Network, max_new_tokens: int, batch_size: int, prompts: int, seeds: Sequence[int] | None) -> None:
    if not model.dims.causal:
        raise ConfigError(
            "model.causal=false cannot generate: each token would see the ones after it; train a causal model "
            "(glassformer ask gives a classifier's labels).",
            reason="not-causal",
        )
    if not model.dims.scores_tokens:
        raise ConfigError(
            f"This model's {model.dims.num_outputs} outputs are not scores of its {model.dims.vocabulary} tokens, so it writes "
            "no text; train one whose objective predicts tokens.",
            reason="no-token-scores",
        )
    if max_new_tokens < 0:
        raise BadArgument("max_new_tokens", max_new_tokens, "it must be 0 or greater")
    if batch_size < 1:
        raise BadArgument("batch_size", batch_size, "it must be 1 or greater")
    if seeds is not None and len(seeds) != prompts:
        raise UsageError(
            f"{len(seeds)} seeds do not fit {prompts} prompts; give one seed per prompt.", reason="seeds-do-not-fit"
        )


@torch.no_grad()
def scores_in_generation(model: Network, prompts: Sequence[Sequence[int]]) -> Tensor:
    """The scores of the token after each prompt by the decoder that generates, float32 [N, V]; for checks of what really runs.

    ``model``: in evaluation mode and its precision. All ids but the last are read into the KV cache, the last one takes a
    step; on CUDA that of the graphs and kernels in ``cuda/``.
    """
    if not has_cache(model) or cache_misleads(model):  # such a model generates by the reference implementation
        return scores_by_reference(model, prompts)
    sequences = _sequences(model, prompts)
    capacity = min(model.dims.context, max(map(len, prompts)) + 1)
    with generation_modes(model):
        if can_capture(model) and model.new_cache().rewinds:
            from glassformer.generation.cuda.decoder import CUDADecoder  # its kernels import Triton

            on_device = CUDADecoder(model, Sampling(), rows=len(prompts), capacity=capacity)
            on_device.run(sequences)
            return on_device.scores_BV.float().clone()
        decoder = BatchDecoder(model, Sampling(), rows=len(prompts), capacity=capacity)
        decoder.run(sequences)
        assert decoder.scores_BV is not None
        return decoder.scores_BV


@torch.no_grad()
def scores_by_reference(model: Network, prompts: Sequence[Sequence[int]]) -> Tensor:
    """The same by the reference implementation: whole windows, no cache."""
    return torch.cat([next_scores(model, sequence) for sequence in _sequences(model, prompts)])


def _sequences(model: Network, prompts: Sequence[Sequence[int]]) -> list[TokenSequence]:
    return [
        TokenSequence(prompt_index=row, ids=list(ids), seed=row, context=model.dims.context, max_new_tokens=1)
        for row, ids in enumerate(prompts)
    ]
