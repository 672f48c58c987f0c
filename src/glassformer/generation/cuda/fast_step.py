"""Last ids -> scores of the next ones by five kernels a layer: the decoding step of the plain pre-norm stack, in bf16 on CUDA.

The reference is the model's own forward pass with a KV cache. A model with any other part takes that pass, captured as a
CUDA graph too. Embeddings, positions that rotate, merges and feed-forwards may be any: they are run as they are.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.generation.cuda.kernels import ACTIVATIONS, WIDEST_HEAD, decode_attention, linear
from glassformer.model.blocks.pre import PreBlock
from glassformer.model.feedforwards.mlp import MLP
from glassformer.model.kernels import usable
from glassformer.model.kv_cache import ModelCache
from glassformer.model.mixers.dot import Dot
from glassformer.model.norms.layer import LayerNorm
from glassformer.model.norms.rms import RMSNorm
from glassformer.model.slots import ContextEmbedding, Feedforward, LinearHead, Positions
from glassformer.model.stacks.plain import Plain
from glassformer.model.tap import Tap
from glassformer.model.transformer import Attention, Transformer

WIDEST = 1024
"""The width up to which our products of few rows were seen to be faster than the forward pass (docs/lab)."""


def compute_scores(model: Transformer, last_B: Tensor, position_B: Tensor, cache: ModelCache, scores_BV: Tensor) -> None:
    """Takes each row's last id through the layers, adds it to the cache, and stores the scores of the next one."""
    position_ids_B1 = position_B.unsqueeze(1)
    x_BD = model.embedding_norm(model.positions.embed(model.embedding(last_B.unsqueeze(1)), position_ids_B1))[:, 0].contiguous()
    for block, of_layer in zip(model.blocks, cache.layers):
        _attend(block, x_BD, model.positions, position_ids_B1, of_layer)
        _feed(block, x_BD)
    linear(x_BD, model.head, norm=model.final_norm, out=scores_BV)


def _attend(block: Any, x_BD: Tensor, positions: Positions, position_ids_B1: Tensor, cache: Any) -> None:
    """Norm, queries, keys and values; attention that also writes the cache; output projection and residual sum."""
    attention, mixer = block.attention, block.attention.mixer
    qkv_BO = linear(x_BD, mixer.qkv, norm=block.attention_norm)
    q_BHTE, k_BHTE, v_BHTE = (part.unflatten(1, (mixer.heads, 1, -1)) for part in qkv_BO.chunk(3, dim=1))
    q_BHTE, k_BHTE = positions.rotate(q_BHTE, position_ids_B1), positions.rotate(k_BHTE, position_ids_B1)
    keys_BHSE, values_BHSE = cache.rows_of("key", k_BHTE), cache.rows_of("value", v_BHTE)
    new = q_BHTE.squeeze(2), k_BHTE.squeeze(2), v_BHTE.squeeze(2)
    scale = 1.0 / math.sqrt(q_BHTE.shape[-1])
    z_BHE = decode_attention(*new, keys_BHSE, values_BHSE, position_ids_B1.squeeze(1), scale)
    merged_BD = attention.merge(z_BHE.unsqueeze(2)).squeeze(1).contiguous()
    linear(merged_BD, attention.output, out=x_BD, add=True)


def _feed(block: Any, x_BD: Tensor) -> None:
    """Norm, up, activation; down and residual sum. A feed-forward of another kind is run as it is."""
    feedforward, norm = block.feedforward, block.feedforward_norm
    if not _has_kernels(feedforward):
        x_BD.add_(feedforward(norm(x_BD.unsqueeze(1))).squeeze(1))
        return
    inner_BI = linear(x_BD, feedforward.up, norm=norm, activation=feedforward.activation)
    linear(inner_BI, feedforward.down, out=x_BD, add=True)


def fits(model: Transformer) -> bool:
    """Whether every part of the model has its place in the step above, and nobody has put something else there."""
    tensors = itertools.chain(model.parameters(), (buffer for buffer in model.buffers() if buffer.is_floating_point()))
    head = type(model.head)
    return (
        all(usable(tensor) and tensor.is_contiguous() for tensor in tensors)
        and not torch.is_autocast_enabled("cuda")
        and model.dims.width <= WIDEST
        and model.dims.head_width <= WIDEST_HEAD
        and type(model.stack) is Plain  # what other stacks do between the layers has no kernel
        and all(_block_fits(block) for block in model.blocks)
        and type(model.final_norm) in (LayerNorm, RMSNorm)
        and not isinstance(model.embedding, ContextEmbedding)
        and model.segments is None
        and type(model.positions).bias is Positions.bias
        and type(model.positions).of_layer is Positions.of_layer
        and issubclass(head, LinearHead)
        and head.forward is LinearHead.forward
        and _only_taps(model.embedded, model.final)
    )


def _block_fits(block: nn.Module) -> bool:
    if not isinstance(block, PreBlock) or not isinstance(block.attention, Attention):
        return False
    attention, mixer = block.attention, block.attention.mixer
    if not isinstance(mixer, Dot) or not mixer.is_plain:
        return False
    return (
        block.cross is None
        and type(mixer.qkv) is type(attention.output) is nn.Linear  # an adapted layer is more than its weight
        and type(block.attention_norm) in (LayerNorm, RMSNorm)
        and type(block.feedforward_norm) in (LayerNorm, RMSNorm)
        and not isinstance(block.feedforward, Feedforward)  # it wants the mask, or earlier tokens
        and _only_taps(block.before, block.middle, block.after)
        and _only_taps(attention.heads, attention.merged, mixer.query, mixer.key, mixer.value)
    )


def _has_kernels(feedforward: nn.Module) -> bool:
    if not isinstance(feedforward, MLP) or type(feedforward.activation) not in ACTIVATIONS:
        return False
    return type(feedforward.up) is type(feedforward.down) is nn.Linear and _only_taps(feedforward.neurons)


def _only_taps(*taps: nn.Module) -> bool:
    """Whether these places are what they were built as; somebody may have put a module of his own there."""
    return all(type(tap) is Tap for tap in taps)
