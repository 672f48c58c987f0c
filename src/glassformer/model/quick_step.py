"""The scores of the next token by five kernels a layer: the step of writing for models of the usual parts, in bf16 on CUDA.

The definition is the model's own forward pass with a memory. Which models can take this way, ``fits`` says; all others
take the forward pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TypeGuard

import torch
from torch import Tensor, nn

from glassformer.model.blocks.pre import PreBlock
from glassformer.model.feedforwards.plain import GELU, Plain
from glassformer.model.kernels import usable
from glassformer.model.kernels.decode_attention import WIDEST_HEAD, decode_attention
from glassformer.model.kernels.stream import NormedMap, Stream, add_linear, after_norm, embed, linear_of_normed
from glassformer.model.lookup import Lookup
from glassformer.model.memory import LayerMemory, Memory
from glassformer.model.mixers.dot import Dot
from glassformer.model.norms.layer import LayerNorm
from glassformer.model.norms.rms import RMSNorm
from glassformer.model.positions.learned import Learned
from glassformer.model.positions.sinusoidal import Sinusoidal
from glassformer.model.replay import record
from glassformer.model.scene import Scene
from glassformer.model.slots import LinearHead, Positions
from glassformer.model.tap import Tap
from glassformer.model.transformer import Attention, Transformer

WIDEST = 1024
"""The width up to which our products of few rows were seen to be faster than the forward pass (LAB.md)."""
BENDS: dict[type[nn.Module], str] = {nn.ReLU: "relu", GELU: "gelu"}


def fits(model: Transformer) -> bool:
    """Whether the kernels can stand for this model's parts; positions that turn, merges and inner maps may be any."""
    tensors = itertools.chain(model.parameters(), (buffer for buffer in model.buffers() if buffer.is_floating_point()))
    return (
        all(usable(tensor) and tensor.is_contiguous() for tensor in tensors)
        and not torch.is_autocast_enabled("cuda")
        and model.dims.width <= WIDEST
        and model.dims.head_width <= WIDEST_HEAD
        and all(_block_fits(block) for block in model.blocks)
        and isinstance(model.final_norm, LayerNorm | RMSNorm)
        and type(model.embedding) is Lookup
        and model.segments is None
        and type(model.embedding_norm) is nn.Identity
        and type(model.positions).bias is Positions.bias
        and (type(model.positions).embed is Positions.embed or places_of(model.positions) is not None)
        and isinstance(model.head, LinearHead)
        and type(model.head).forward is LinearHead.forward
        and _passed_over(model.embedded, model.final)
    )


def _block_fits(block: nn.Module) -> bool:
    if not isinstance(block, PreBlock) or not isinstance(block.attention, Attention):
        return False
    attention, mixer = block.attention, block.attention.mixer
    return (
        isinstance(mixer, Dot)
        and mixer.fused
        and type(mixer.qkv) is type(attention.output) is nn.Linear  # an adapted map is more than its weight
        and all(isinstance(norm, LayerNorm | RMSNorm) for norm in (block.attention_norm, block.feedforward_norm))
        and _passed_over(block.before, block.middle, block.after, attention.heads, attention.merged)
        and _passed_over(mixer.query, mixer.key, mixer.value)
    )


def _passed_over(*taps: nn.Module) -> bool:
    """Whether these places are what they were built as; somebody may have put a module of his own there."""
    return all(type(tap) is Tap for tap in taps)


class QuickStep:
    """The step, with the maps that follow a norm made ready. Keeps no hold of the model: its owner may live as long."""

    def __init__(self, model: Transformer) -> None:
        self._maps = [_after(*pair) for pair in _norms_and_maps(model)]
        self._refreshing: torch.cuda.CUDAGraph | None = None

    def refresh(self, model: Transformer) -> None:
        """Takes over weights of its model that may have changed where they are; recordings find the maps where they were."""
        if self._refreshing is None and model.embedding.weight.is_cuda:
            self._refreshing = record(lambda: self._take_over(model))
        if self._refreshing is None:
            self._take_over(model)
        else:
            self._refreshing.replay()

    def _take_over(self, model: Transformer) -> None:
        for kept, pair in zip(self._maps, _norms_and_maps(model)):
            _after(*pair, into=kept)

    def write_scores(self, scores_BV: Tensor, model: Transformer, stream: Stream, at_B: Tensor, memory: Memory) -> None:
        """Carries each row's last id, which stands in the stream, through the layers, adds it to the memory at its place, and
        stores the scores of the next one. The stream holds nothing of use afterwards."""
        maps = iter(self._maps)
        for block, of_layer in zip(model.blocks, memory.layers):
            assert isinstance(block, PreBlock)
            assert isinstance(block.attention, Attention)
            _add_attention(stream, next(maps), block.attention, model.positions, at_B.unsqueeze(1), of_layer)
            if _is_two_maps(block.feedforward):
                inner_BI = linear_of_normed(stream, next(maps), bend=BENDS[type(block.feedforward.bend)])
                add_linear(stream, inner_BI, block.feedforward.down.weight, block.feedforward.down.bias)
            else:
                x_B1D = stream.x_BD.unsqueeze(1)
                x_BD = (x_B1D + block.feedforward(block.feedforward_norm(x_B1D))).squeeze(1)
                embed(stream, torch.arange(len(x_BD), device=x_BD.device), x_BD)
        linear_of_normed(stream, next(maps), out=scores_BV)


def read_windows(model: Transformer, ids_BT: Tensor, memory: Memory) -> None:
    """Puts windows into the memory: the forward pass up to the last keys and values, for models that fit."""
    scene = Scene(causal=model.dims.causal)
    x_BTD = model.positions.embed(model.embedding(ids_BT), scene.query_positions(ids_BT.shape[1], ids_BT.device))
    for block, of_layer in zip(model.blocks, memory.layers):
        if of_layer is not memory.layers[-1]:
            x_BTD = block(x_BTD, scene, model.positions, of_layer)
        else:
            assert isinstance(block, PreBlock)
            assert isinstance(block.attention, Attention)
            block.attention.mixer(block.attention_norm(x_BTD), scene, model.positions, of_layer)


def places_of(positions: Positions) -> Tensor | None:
    """What the positions add to a token's vector, by place."""
    if isinstance(positions, Learned):
        return positions.table.weight[positions.offset :]
    return positions.table_TD if isinstance(positions, Sinusoidal) else None


def _add_attention(
    stream: Stream, qkv: NormedMap, attention: Attention, positions: Positions, at_B1: Tensor, memory: LayerMemory
) -> None:
    assert isinstance(attention.mixer, Dot)
    heads = attention.mixer.heads
    q_BHTE, k_BHTE, v_BHTE = (part.unflatten(1, (heads, 1, -1)) for part in linear_of_normed(stream, qkv).chunk(3, dim=1))
    q_BHTE, k_BHTE = positions.rotate(q_BHTE, at_B1), positions.rotate(k_BHTE, at_B1)
    z_BHE = decode_attention(
        q_BHTE.squeeze(2),
        k_BHTE.squeeze(2),
        v_BHTE.squeeze(2),
        memory.rows_of("key", k_BHTE),
        memory.rows_of("value", v_BHTE),
        at_B1.squeeze(1),
        1.0 / math.sqrt(q_BHTE.shape[-1]),
    )
    merged_BD = attention.merge(z_BHE.unsqueeze(2)).squeeze(1).contiguous()
    add_linear(stream, merged_BD, attention.output.weight, attention.output.bias)


def _is_two_maps(feedforward: nn.Module) -> TypeGuard[Plain]:
    """Whether it is two linear maps with a bend between them that a kernel knows."""
    return (
        isinstance(feedforward, Plain)
        and type(feedforward.up) is type(feedforward.down) is nn.Linear
        and type(feedforward.bend) in BENDS
        and _passed_over(feedforward.neurons)
    )


def _norms_and_maps(model: Transformer) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Every norm with the map that follows it, in the order in which the step takes them."""
    for block in model.blocks:
        assert isinstance(block, PreBlock)
        assert isinstance(block.attention, Attention)
        assert isinstance(block.attention.mixer, Dot)
        yield block.attention_norm, block.attention.mixer.qkv
        if _is_two_maps(block.feedforward):
            yield block.feedforward_norm, block.feedforward.up
    yield model.final_norm, model.head


def _after(norm: nn.Module, map_: nn.Module, into: NormedMap | None = None) -> NormedMap:
    assert isinstance(norm, LayerNorm | RMSNorm)
    assert isinstance(map_, nn.Linear | LinearHead)
    assert norm.eps is not None
    centred = isinstance(norm, LayerNorm)
    shift_I = norm.bias if isinstance(norm, LayerNorm) else None
    return after_norm(map_.weight, map_.bias, scale_I=norm.weight, shift_I=shift_I, eps=norm.eps, centred=centred, into=into)
