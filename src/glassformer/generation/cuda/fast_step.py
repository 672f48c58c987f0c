"""Last ids -> scores of the next ones by five kernels a layer: the decoding step of models of common parts, in bf16 on CUDA.

The reference is the model's own forward pass with a KV cache. A part offers its fast form through a table here, keyed by its
class; a model with a part that offers none takes the forward pass. Positions that rotate, merges and feed-forwards may be
any: they are run as they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self, final

import torch
from torch import Tensor, nn

from glassformer.generation.cuda.graphs import capture
from glassformer.generation.cuda.kernels.decode_attention import WIDEST_HEAD, decode_attention
from glassformer.generation.cuda.kernels.residual import (
    NormedLinear,
    ResidualStream,
    add_linear,
    after_norm,
    embed,
    linear_of_normed,
)
from glassformer.model.attention_context import AttentionContext
from glassformer.model.blocks.pre import PreBlock
from glassformer.model.embedding import Embedding
from glassformer.model.feedforwards.mlp import MLP
from glassformer.model.kernels import usable
from glassformer.model.kv_cache import KVCache, ModelCache
from glassformer.model.mixers.dot import Dot
from glassformer.model.norms.layer import LayerNorm
from glassformer.model.norms.rms import RMSNorm
from glassformer.model.positions.learned import Learned
from glassformer.model.positions.sinusoidal import Sinusoidal
from glassformer.model.slots import Feedforward, LinearHead, Positions
from glassformer.model.stacks.plain import Plain
from glassformer.model.tap import Tap
from glassformer.model.transformer import Attention, Transformer

WIDEST = 1024
"""The width up to which our products of few rows were seen to be faster than the forward pass (docs/lab)."""


class NormParameters(NamedTuple):
    """A norm as ``after_norm`` takes it."""

    scale_I: Tensor
    shift_I: Tensor | None
    eps: float
    centred: bool


class PartStep(Protocol):
    """The fast form of a part, built from a norm and the part after it."""

    def refresh(self) -> None:
        """Takes over weights that may have changed where they are; CUDA graphs find the layers where they were."""

    def __call__(self, residual: ResidualStream, positions: Positions, position_ids_B1: Tensor, cache: Any) -> None: ...


@final
class DotStep:
    """Norm, queries, keys and values; attention that also writes the cache; output projection and residual sum."""

    def __init__(self, norm: nn.Module, attention: Attention) -> None:
        self.norm, self.attention = norm, attention
        self.qkv = _fold(norm, attention.mixer.qkv)

    @staticmethod
    def fits(attention: Attention) -> bool:
        mixer: Any = attention.mixer
        linear = type(mixer.qkv) is type(attention.output) is nn.Linear  # an adapted layer is more than its weight
        return mixer.is_plain and linear and _only_taps(attention.heads, attention.merged, mixer.query, mixer.key, mixer.value)

    def refresh(self) -> None:
        _fold(self.norm, self.attention.mixer.qkv, into=self.qkv)

    def __call__(self, residual: ResidualStream, positions: Positions, position_ids_B1: Tensor, cache: KVCache) -> None:
        attention, heads = self.attention, self.attention.mixer.heads
        qkv_BO = linear_of_normed(residual, self.qkv)
        q_BHTE, k_BHTE, v_BHTE = (part.unflatten(1, (heads, 1, -1)) for part in qkv_BO.chunk(3, dim=1))
        q_BHTE, k_BHTE = positions.rotate(q_BHTE, position_ids_B1), positions.rotate(k_BHTE, position_ids_B1)
        z_BHE = decode_attention(
            q_BHTE.squeeze(2),
            k_BHTE.squeeze(2),
            v_BHTE.squeeze(2),
            cache.rows_of("key", k_BHTE),
            cache.rows_of("value", v_BHTE),
            position_ids_B1.squeeze(1),
            1.0 / math.sqrt(q_BHTE.shape[-1]),
        )
        merged_BD = attention.merge(z_BHE.unsqueeze(2)).squeeze(1).contiguous()
        add_linear(residual, merged_BD, attention.output.weight, attention.output.bias)


@final
class MLPStep:
    """Norm, up, activation; down and residual sum."""

    def __init__(self, norm: nn.Module, feedforward: MLP) -> None:
        self.norm, self.feedforward, self.up = norm, feedforward, _fold(norm, feedforward.up)
        self.activation = ACTIVATIONS[type(feedforward.activation)]

    @staticmethod
    def fits(feedforward: MLP) -> bool:
        linear = type(feedforward.up) is type(feedforward.down) is nn.Linear
        exact = getattr(feedforward.activation, "approximate", "none") == "none"
        return linear and type(feedforward.activation) in ACTIVATIONS and exact and _only_taps(feedforward.neurons)

    def refresh(self) -> None:
        _fold(self.norm, self.feedforward.up, into=self.up)

    def __call__(self, residual: ResidualStream, positions: Positions, position_ids_B1: Tensor, cache: Any) -> None:
        inner_BI = linear_of_normed(residual, self.up, activation=self.activation)
        add_linear(residual, inner_BI, self.feedforward.down.weight, self.feedforward.down.bias)


@final
class AnyFeedforwardStep:
    """A feed-forward without a fast form, as it is."""

    def __init__(self, norm: nn.Module, feedforward: nn.Module) -> None:
        self.norm, self.feedforward = norm, feedforward

    def refresh(self) -> None:
        pass

    def __call__(self, residual: ResidualStream, positions: Positions, position_ids_B1: Tensor, cache: Any) -> None:
        x_B1D = residual.x_BD.unsqueeze(1)
        x_BD = (x_B1D + self.feedforward(self.norm(x_B1D))).squeeze(1)
        embed(residual, torch.arange(len(x_BD), device=x_BD.device), x_BD)


NORMS: dict[type[nn.Module], Callable[[Any], NormParameters]] = {
    LayerNorm: lambda norm: NormParameters(norm.weight, norm.bias, norm.eps, centred=True),
    RMSNorm: lambda norm: NormParameters(norm.weight, None, norm.eps, centred=False),
}
MIXERS: dict[type[nn.Module], type[DotStep]] = {Dot: DotStep}
FEEDFORWARDS: dict[type[nn.Module], type[MLPStep]] = {MLP: MLPStep}
ACTIVATIONS: dict[type[nn.Module], str] = {nn.ReLU: "relu", nn.GELU: "gelu"}
POSITION_TABLES: dict[type[nn.Module], Callable[[Any], Tensor]] = {
    Learned: lambda positions: positions.table.weight[positions.offset :],
    Sinusoidal: lambda positions: positions.table_TD,
}


@final
class FastStep:
    """The step of one model. Holds its parts, not the model itself."""

    def __init__(self, model: Transformer) -> None:
        self.positions, self.final_norm, self.head = model.positions, model.final_norm, model.head
        self.blocks = [(_attention_step(block), _feedforward_step(block)) for block in model.blocks]
        self.scores = _fold(model.final_norm, model.head)
        self._refreshing: torch.cuda.CUDAGraph | None = None

    @classmethod
    def of(cls, model: Transformer) -> Self | None:
        """The fast step, if every part of the model offers one."""
        return cls(model) if fits(model) else None

    def refresh(self) -> None:
        """Takes over weights that may have changed where they are."""
        if self._refreshing is None and self.scores.weight_OI.is_cuda:
            self._refreshing = capture(self._refresh)
        if self._refreshing is None:
            self._refresh()
        else:
            self._refreshing.replay()

    def _refresh(self) -> None:
        for part in itertools.chain.from_iterable(self.blocks):
            part.refresh()
        _fold(self.final_norm, self.head, into=self.scores)

    def compute_scores(self, scores_BV: Tensor, residual: ResidualStream, position_B: Tensor, cache: ModelCache) -> None:
        """Takes each row's last id, whose embedding is the residual stream, through the layers, adds it to the cache, and
        stores the scores of the next one. The residual stream holds nothing of use afterwards."""
        position_ids_B1 = position_B.unsqueeze(1)
        for parts, of_layer in zip(self.blocks, cache.layers):
            for part in parts:
                part(residual, self.positions, position_ids_B1, of_layer)
        linear_of_normed(residual, self.scores, out=scores_BV)

    def prefill(self, model: Transformer, ids_BT: Tensor, cache: ModelCache) -> None:
        """Reads windows into the cache: the forward pass up to the last keys and values."""
        attention_context = AttentionContext(causal=model.dims.causal)
        x_BTD = model.positions.embed(
            model.embedding(ids_BT), attention_context.query_position_ids(ids_BT.shape[1], ids_BT.device)
        )
        blocks: list[Any] = list(model.blocks)
        for block, of_layer in zip(blocks, cache.layers):
            if of_layer is not cache.layers[-1]:
                x_BTD = block(x_BTD, attention_context, model.positions, of_layer)
            else:
                block.attention.mixer(block.attention_norm(x_BTD), attention_context, model.positions, of_layer)


def fits(model: Transformer) -> bool:
    """Whether every part of the model offers a fast form, and nobody has put something else in its place."""
    tensors = itertools.chain(model.parameters(), (buffer for buffer in model.buffers() if buffer.is_floating_point()))
    positions, head = type(model.positions), type(model.head)
    return (
        all(usable(tensor) and tensor.is_contiguous() for tensor in tensors)
        and not torch.is_autocast_enabled("cuda")
        and model.dims.width <= WIDEST
        and model.dims.head_width <= WIDEST_HEAD
        and model.dims.attention_width == model.dims.width
        and type(model.stack) is Plain  # what other stacks do between the layers has no kernel
        and all(_block_fits(block) for block in model.blocks)
        and type(model.final_norm) in NORMS
        and type(model.embedding) is Embedding
        and model.segments is None
        and type(model.embedding_norm) is nn.Identity
        and positions.bias is Positions.bias
        and (positions.embed is Positions.embed or positions in POSITION_TABLES)
        and issubclass(head, LinearHead)
        and head.forward is LinearHead.forward
        and _only_taps(model.embedded, model.final)
    )


def position_table(positions: Positions) -> Tensor | None:
    """What the positions add to a token's embedding, [T, D]."""
    table = POSITION_TABLES.get(type(positions))
    return None if table is None else table(positions)


def _block_fits(block: nn.Module) -> bool:
    return (
        isinstance(block, PreBlock)
        and isinstance(block.attention, Attention)
        and type(block.attention.mixer) in MIXERS
        and MIXERS[type(block.attention.mixer)].fits(block.attention)
        and type(block.attention_norm) in NORMS
        and type(block.feedforward_norm) in NORMS
        and not isinstance(block.feedforward, Feedforward)  # it wants the mask, or earlier tokens
        and _only_taps(block.before, block.middle, block.after)
    )


def _attention_step(block: Any) -> PartStep:
    return MIXERS[type(block.attention.mixer)](block.attention_norm, block.attention)


def _feedforward_step(block: Any) -> PartStep:
    step = FEEDFORWARDS.get(type(block.feedforward))
    if step is None or not step.fits(block.feedforward):
        return AnyFeedforwardStep(block.feedforward_norm, block.feedforward)
    return step(block.feedforward_norm, block.feedforward)


def _only_taps(*taps: nn.Module) -> bool:
    """Whether these places are what they were built as; somebody may have put a module of his own there."""
    return all(type(tap) is Tap for tap in taps)


def _fold(norm: nn.Module, linear: Any, into: NormedLinear | None = None) -> NormedLinear:
    return after_norm(linear.weight, linear.bias, **NORMS[type(norm)](norm)._asdict(), into=into)
