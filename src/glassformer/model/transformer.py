"""The one way to build a model: choices and a vocabulary size -> a Transformer, initialised from a seed.

Used by the trainer, the checks, the page and the tests alike. Attention: model/attention.py has the mathematics,
model/mixers/ the variants, model/mixers/dot.py first of them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError
from glassformer.model.attention_context import AttentionContext, Memory
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.dropout import Dropout, DropoutMasks
from glassformer.model.embedding_lookup import Embedding
from glassformer.model.initialisation import initialise, keyed, start
from glassformer.model.kv_cache import CachePlacement, KVCache, LayerCache, ModelCache, PartCaches, cache_of
from glassformer.model.network import Network
from glassformer.model.slots import (
    Block,
    ContextEmbedding,
    CrossConfig,
    Feedforward,
    Layer,
    LayerParts,
    Merge,
    Mixer,
    Positions,
    PositionsConfig,
)
from glassformer.model.tap import BY_HEAD, STREAM, Tap


@final
class Attention(nn.Module):
    """A mixer, a merge of its heads, and the output projection."""

    def __init__(self, dims: Dims, mixer: Mixer, merge: Merge) -> None:
        super().__init__()
        self.mixer, self.merge = mixer, merge
        self.heads, self.merged = Tap(BY_HEAD), Tap(STREAM)  # taps have the names that a user looks at: "heads" is no number
        self.output = start(nn.Linear(dims.attention_width, dims.width, bias=dims.bias), "output", writes_residual=True)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor:
        z_BHTE = self.heads(self.mixer(x_BTD, attention_context, positions, cache_of(cache, self.mixer)))
        return self.output(self.merged(self.merge(z_BHTE)))


@final
class PositionsList(Positions):
    """The positions of a list; equal entries are one module, so that what they learn is shared as without a list."""

    def __init__(self, choices: Sequence[PositionsConfig], dims: Dims) -> None:
        super().__init__()
        distinct = [choice for number, choice in enumerate(choices) if choice not in choices[:number]]
        self.entries = [distinct.index(choice) for choice in choices]
        made = enumerate(choice.build(replace(dims, layer=choices.index(choice))) for choice in distinct)
        self.distinct = nn.ModuleList(keyed(one, "positions" if number == 0 else f"positions/{number}") for number, one in made)

    def of_layer(self, layer: int) -> Positions:
        positions = self.distinct[self.entries[layer % len(self.entries)]]
        assert isinstance(positions, Positions)
        return positions

    def embed(self, x_BTD: Tensor, position_ids_BT: Tensor) -> Tensor:
        return self.of_layer(0).embed(x_BTD, position_ids_BT)


@final
class Transformer(Network):
    """Token ids -> scores of the next token at every position."""

    def __init__(
        self,
        config: ModelConfig,
        vocabulary: int,
        outputs: int | None = None,
        *,
        embedding: nn.Embedding | None = None,
        cross: CrossConfig | None = None,
    ) -> None:
        """``embedding``: another model's, to share. ``cross``: attention to a source in every block (an encoder-decoder)."""
        super().__init__()
        dims = config.dims(vocabulary, outputs)
        incompatibility = config.head.incompatibility(dims)
        if incompatibility:
            raise ConfigError(incompatibility, reason="incompatible-parts")
        self.config, self.dims, self.cross = config, dims, cross
        self.pools, self.takes_segments = config.head.pools, config.segments > 1
        self.embedding = keyed(config.embedding.build(dims), "embedding") if embedding is None else embedding
        self.positions = self._positions()
        self.segments = keyed(Embedding(config.segments, dims.width), "segments") if config.segments else None
        first, last = config.of_layer(0), config.last_layer
        self.embedding_norm = keyed(first.norm.build(dims), "embedding_norm") if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(dims.dropout)
        self.blocks = nn.ModuleList(self._block(block) for block in range(config.num_blocks))
        self.order = config.order
        self._borrows_keys = any(config.of_layer(block).mixer.borrows_keys for block in self.order)
        self.stack = keyed(config.stack.build(dims), "stack")
        self.final_norm = keyed(last.norm.build(dims), "final_norm") if last.block.norm_at_end else nn.Identity()
        self.head = keyed(config.head.build(dims, self.embedding), "head")
        self.embedded, self.final = Tap(STREAM), Tap(STREAM)

    @property
    def own_losses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.config.parts for name in part.own_losses))

    def initialise(self, seed: int) -> None:
        """Draws every weight anew, as ``model.init`` says."""
        initialise(self, seed, lambda weights: self.config.init.std_of(weights, self.dims))

    def lr_factors(self) -> dict[str, float]:
        factors = {name: self.config.init.lr_factor(name, each, self.dims) for name, each in self.named_parameters()}
        return {name: factor for name, factor in factors.items() if factor != 1.0}

    def _positions(self) -> Positions:
        """One for all layers; of a list one for each distinct entry."""
        if not isinstance(self.config.positions, tuple):
            return keyed(self.config.positions.build(self.dims), "positions")
        return PositionsList(self.config.positions, self.dims)

    def _block(self, layer: int) -> Block:
        config, dims, key = self.config.of_layer(layer), replace(self.dims, layer=layer), f"blocks.{layer}"
        numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

        def numbered(part: str) -> str:
            """The key of the next part of this kind; the second and later ones carry their number."""
            number = next(numbers[part])
            return f"{key}.{part}/{number}" if number else f"{key}.{part}"

        def attention() -> Attention:
            of_attention = numbered("attention")
            mixer, merge = config.mixer.build(dims), config.merge.build(dims)
            parts = keyed(mixer, f"{of_attention}.mixer"), keyed(merge, f"{of_attention}.merge")
            return keyed(Attention(dims, *parts), of_attention)

        def attention_to_source(mixer: Mixer) -> Attention:
            parts = keyed(mixer, f"{key}.cross.mixer"), keyed(config.merge.build(dims), f"{key}.cross.merge")
            return keyed(Attention(dims, *parts), f"{key}.cross")

        reader = None if self.cross is None else self.cross.build(dims)
        make = LayerParts(
            attention=attention,
            feedforward=lambda: keyed(config.feedforward.build(dims), numbered("feedforward")),
            norm=lambda: keyed(config.norm.build(dims), numbered("norm")),
            cross=None if reader is None else lambda: attention_to_source(reader),
        )
        return keyed(config.block.build(dims, make), key)

    def features(
        self,
        ids_BT: Tensor,
        *,
        position_ids_BT: Tensor | None = None,
        key_padding_mask_BS: Tensor | None = None,
        cache: ModelCache | None = None,
        dropout_seed: Tensor | None = None,
        segments_BT: Tensor | None = None,
        document_ids_BS: Tensor | None = None,
        prefix_lengths_B: Tensor | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """The vectors the head reads, [B, T, D].

        ``position_ids_BT``: 0, 1, 2, ... unless told. ``key_padding_mask_BS``: True at keys that no query may attend to.
        ``cache``: the keys and values of earlier tokens; those of the new tokens are added. ``dropout_seed``: of the dropout
        masks of embeddings and blocks, for compiled steps; without it, and inside attention, torch's generator draws them.
        ``segments_BT``: the segment of each token, for models with ``model.segments`` (0 everywhere unless told).
        ``document_ids_BS``: the document of each token; a query sees its own document alone. ``prefix_lengths_B``: so many
        tokens at the beginning of a row are seen by all others (prefix LM).
        ``memory``: what an encoder made of the sources, for a decoder that attends to them.
        """
        if ids_BT.shape[1] > self.dims.context:
            raise ConfigError(
                f"{ids_BT.shape[1]} tokens do not fit in model.context={self.dims.context}; give fewer at once.",
                reason="text-too-long",
            )
        if cache is not None and not cache.rewinds and not (key_padding_mask_BS is None and document_ids_BS is None):
            raise ConfigError(
                "This model's cache (of a window or a recurrence) holds one text a row, without padding or documents; "
                "read without a cache.",
                reason="cache-without-masks",
            )
        masks = None if dropout_seed is None else DropoutMasks(dropout_seed)
        attention_context = AttentionContext(
            causal=self.dims.causal,
            position_ids_BT=position_ids_BT,
            key_padding_mask_BS=key_padding_mask_BS,
            document_ids_BS=document_ids_BS,
            prefix_lengths_B=prefix_lengths_B,
            dropout_masks=masks,
            own_losses=self.collecting,
            memory=memory,
            ids_BT=ids_BT,
            lent={} if self._borrows_keys else None,
        )
        x_BTD = self.positions.embed(
            self._embed(ids_BT, attention_context, cache),
            attention_context.query_position_ids(ids_BT.shape[1], ids_BT.device),
        )
        x_BTD = self.embedding_norm(self._with_segments(x_BTD, segments_BT))
        x_BTD = self.embedded(_in_stream_precision(self.dropout(x_BTD, masks)))
        caches: Sequence[LayerCache | None] = [None] * len(self.order) if cache is None else cache.layers
        called: list[int] = []
        layers = [self._layer(number, called, attention_context, of_layer) for number, of_layer in enumerate(caches)]
        x_BTD = self.stack(x_BTD, layers)
        if called != list(range(len(layers))):
            raise ConfigError(
                f"model.stack={self.config.stack.kind} called the layers {called}; it must call each of the {len(layers)} "
                "once, in order, and applies a block again by block_of.",
                reason="layers-out-of-order",
            )
        x_BTD = self.final(self.final_norm(x_BTD))
        if self.collecting is not None and hasattr(self.head, "add_losses"):
            self.head.add_losses(x_BTD, ids_BT, attention_context)  # type: ignore[operator]
        return x_BTD

    def _embed(self, ids_BT: Tensor, attention_context: AttentionContext, cache: ModelCache | None) -> Tensor:
        if isinstance(self.embedding, ContextEmbedding):
            return self.embedding.embed(ids_BT, attention_context, None if cache is None else cache.embedding)
        return self.embedding(ids_BT)

    def _layer(self, number: int, called: list[int], attention_context: AttentionContext, cache: LayerCache | None) -> Layer:
        block = self.order[number]
        positions = self.positions.of_layer(block)

        def layer(x_BTD: Tensor, *, values: Callable[[Tensor], Tensor] | None = None) -> Tensor:
            called.append(number)
            context = attention_context if values is None else replace(attention_context, values=values)
            return self.blocks[block](x_BTD, context, positions, cache)

        return layer

    def _with_segments(self, x_BTD: Tensor, segments_BT: Tensor | None) -> Tensor:
        if self.segments is None:
            if segments_BT is not None:
                raise ConfigError(
                    "This model has no segments; set model.segments=2, or pass no segments.", reason="no-segments"
                )
            return x_BTD
        return x_BTD + (self.segments.weight[0] if segments_BT is None else self.segments(segments_BT))

    @property
    def needs_token_counts(self) -> bool:
        """Whether the head wants to know how often each token occurs in the training text."""
        return hasattr(self.head, "start_from_counts")

    def start_from_counts(self, counts_V: Tensor) -> None:
        """Tells the head, where it wants to know."""
        start = getattr(self.head, "start_from_counts", None)
        if start is not None:
            start(counts_V)

    def new_cache(self, *, capacity: int | None = None, rows: int | None = None) -> ModelCache:
        """An empty KV cache for up to ``rows`` rows (those of the first pass, unless told) of ``capacity`` positions."""
        placement = CachePlacement(capacity=capacity or self.dims.context, rows=rows)
        layers = [_cache_of_layer(self.blocks[block], placement) for block in self.order]
        seen = self.embedding.new_cache(placement) if isinstance(self.embedding, ContextEmbedding) else None
        return ModelCache(placement, layers, seen)

    def cache_bytes(self, *, rows: int, capacity: int) -> int:
        """The most that the KV cache of so many rows and positions takes."""
        numbers = 0
        for block in self.order:
            choices, dims = self.config.of_layer(block), replace(self.dims, layer=block)
            numbers += choices.mixer.cache_positions(capacity) * choices.mixer.cache_width(dims)
            numbers += capacity * choices.block.feedforwards * choices.feedforward.cache_width(dims)
        return rows * numbers * self.embedding.weight.element_size()


def _cache_of_layer(block: nn.Module, placement: CachePlacement) -> LayerCache:
    made = {part: part.new_cache(placement) for part in block.modules() if isinstance(part, Mixer | Feedforward)}
    caches: dict[nn.Module, LayerCache] = {part: cache for part, cache in made.items() if cache is not None}
    if all(isinstance(part, Mixer) for part in caches) and len(caches) <= 1:
        return next(iter(caches.values()), KVCache(placement))
    return PartCaches(caches)


def _in_stream_precision(x_BTD: Tensor) -> Tensor:
    """Under autocast the residual stream has the autocast dtype: bf16 moves half the bytes (norms still sum in float32)."""
    device = x_BTD.device.type
    return x_BTD.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x_BTD


def build_model(config: ModelConfig, vocabulary: int, *, outputs: int | None = None, seed: int) -> Transformer:
    """A model on the CPU in float32. With one seed, weights of equal key and shape start equal in any two models."""
    model = Transformer(config, vocabulary, outputs)
    model.initialise(seed)
    return model
