"""The whole Transformer: an encoder that reads the source, and a decoder that attends to it and writes the target.

Both are Transformers of the same parts (model/transformer.py); the decoder's blocks have one more attention (model/cross/).
``EncoderDecoder.given(memory)`` is a network of the target alone (ARCHITECTURE.md, "Two sequences").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self, final

import torch
from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.seeds import derive_seed
from glassformer.model.accounting import Cost, parts_in, saved_bytes
from glassformer.model.attention_context import Memory, OwnLosses
from glassformer.model.config import ModelConfig, entries
from glassformer.model.dims import Dims
from glassformer.model.kv_cache import ModelCache
from glassformer.model.network import MODELS, Network
from glassformer.model.slots import CROSS, CrossConfig
from glassformer.model.transformer import Transformer

NOT_A_SIDE = ("encoder", "decoder", "embeddings", "cross", "causal", "context", "width", "segments", "vocabulary")
"""Keys that both sides share, or that say how they are joined: not to be set for one of them."""

OTHER_MASKS = 0x2545F491
"""Turns the seed of the decoder's dropout masks into that of the encoder's."""


@MODELS.variant("encoder-decoder")
class EncoderDecoderConfig(ModelConfig):
    """An encoder that sees all of the source, and a causal decoder that attends to it (Vaswani et al. 2017).

    Every key of a Transformer holds for both sides; ``encoder`` and ``decoder`` change it for one of them
    (``model.encoder.layers: 6``).
    """

    kind_is_written: ClassVar[bool] = True
    reads_source: ClassVar[bool] = True
    cross: Annotated[SerializeAsAny[CrossConfig], BeforeValidator(CROSS.parse)] = CROSS.default("dot")
    embeddings: Literal["shared", "separate"] = "shared"
    """Whether source and target have one table of token vectors; two tokenizers need `separate`."""
    encoder: dict[str, Any] = Field(default_factory=dict)
    """What is different in the encoder: keys of this section, such as `layers`, `mixer`, `positions`."""
    decoder: dict[str, Any] = Field(default_factory=dict)
    """What is different in the decoder."""

    @model_validator(mode="after")
    def _sides_fit(self) -> Self:
        if not self.causal or self.segments:
            raise ValueError(
                "model.causal and model.segments are not for model.kind=encoder-decoder: the encoder sees all of the source, "
                "the decoder is causal; leave them out."
            )
        for name in ("encoder", "decoder"):
            if wrong := [key for key in getattr(self, name) if key in NOT_A_SIDE]:
                raise ValueError(f"model.{name}.{wrong[0]} cannot be set for one side; set model.{wrong[0]}.")
            self.side(name)
        for block in entries(self.side("decoder").block):
            if not block.takes_cross:
                raise ValueError(f"model.block={block.kind} has no place for attention to a source; choose pre or post.")
        if self.head.pools:
            raise ValueError(f"model.head={self.head.kind} pools a row, but a target is written token by token; choose tied.")
        return self

    def side(self, name: str) -> ModelConfig:
        """The encoder or the decoder as a Transformer of its own. The encoder's head is never used."""
        both = {key: getattr(self, key) for key in ModelConfig.model_fields}
        head = {"head": "tied"} if name == "encoder" else {}
        return ModelConfig.parse({**both, **getattr(self, name), **head, "causal": name == "decoder"}, at=f"model.{name}")

    def check_cache_inputs(self) -> Mapping[str, Any] | None:
        return None if self.encoder or self.decoder else {}  # a side's part may be a class without a checksum

    def build(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> EncoderDecoder:  # type: ignore[override]
        network = EncoderDecoder(self, vocabulary, outputs)
        network.encoder.initialise(derive_seed(seed, "encoder"))
        network.decoder.initialise(derive_seed(seed, "decoder"))
        return network

    def shapes(self, vocabulary: int, *, outputs: int | None = None) -> EncoderDecoder:  # type: ignore[override]
        with torch.device("meta"):
            return EncoderDecoder(self, vocabulary, outputs)

    def cost(self, vocabulary: int, *, outputs: int | None = None, batch: int) -> Cost:
        """Of a batch in which every source and target fills the context."""
        from torch._subclasses.fake_tensor import FakeTensorMode  # as in model/accounting.py

        network, counted = self.shapes(vocabulary, outputs=outputs), set[nn.Parameter]()
        encoder, decoder = (
            parts_in(side, counted, batch=batch, length=self.context) for side in (network.encoder, network.decoder)
        )
        absent = "embedding" if self.embeddings == "shared" else "nothing"
        parts = [replace(one, name=f"encoder: {one.name}") for one in encoder if not one.name.startswith("head")]
        parts += [replace(one, name=f"decoder: {one.name}") for one in decoder if not one.name.startswith(absent)]
        size = 4 * sum(part.parameters for part in parts)
        with FakeTensorMode():
            network = EncoderDecoder(self, vocabulary, outputs).train()
            ids_BT = torch.zeros(batch, self.context, dtype=torch.long)
            activations = saved_bytes(network, ids_BT, ids_BT, torch.zeros_like(ids_BT, dtype=torch.bool))
        return Cost(tuple(parts), batch, self.context, weight_bytes=size, gradient_bytes=size, activation_bytes=activations)


@final
class EncoderDecoder(Network):
    """Source ids -> memory; target ids and the memory -> vectors -> scores of the next token of the target."""

    reads_source = True

    def __init__(self, config: EncoderDecoderConfig, vocabulary: int, outputs: int | None = None) -> None:
        super().__init__()
        target, shared = vocabulary if outputs is None else outputs, config.embeddings == "shared"
        if shared and target != vocabulary:
            raise ConfigError(
                f"model.embeddings=shared needs one vocabulary, but the source has {vocabulary} tokens and the target "
                f"{target}; set model.embeddings=separate, or use one tokenizer.",
                reason="two-vocabularies",
            )
        self.config = config
        self.encoder = Transformer(config.side("encoder"), vocabulary)
        embedding = self.encoder.embedding if shared else None
        self.decoder = Transformer(config.side("decoder"), target, embedding=embedding, cross=config.cross)
        self.dims: Dims = self.decoder.dims

    @property
    def head(self) -> nn.Module:  # type: ignore[override]
        return self.decoder.head

    @property
    def embedding(self) -> nn.Module:
        return self.decoder.embedding

    @property
    def source_vocabulary(self) -> int:
        return self.encoder.dims.vocabulary

    def encode(
        self, source_ids_BS: Tensor, source_padding_BS: Tensor | None = None, *, dropout_seed: Tensor | None = None
    ) -> Memory:
        seed = None if dropout_seed is None else dropout_seed ^ OTHER_MASKS
        vectors_BSD = self.encoder.features(source_ids_BS, key_padding_mask_BS=source_padding_BS, dropout_seed=seed)
        return Memory(vectors_BSD, source_padding_BS)

    @property
    def own_losses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.encoder.own_losses, *self.decoder.own_losses)))

    def lr_factors(self) -> dict[str, float]:
        sides = {"encoder": self.encoder, "decoder": self.decoder}
        return {f"{side}.{name}": factor for side, one in sides.items() for name, factor in one.lr_factors().items()}

    def collect(self, losses: OwnLosses | None) -> None:
        self.encoder.collecting = self.decoder.collecting = losses

    def features(self, ids_BT: Tensor, **more: Any) -> Tensor:
        """The vectors the head reads, of the target [B, T, D]. Arguments: as of ``Transformer``; ``memory``: of ``encode``."""
        return self.decoder.features(ids_BT, **more)

    def forward(  # type: ignore[override]  # it needs a source; ``given`` is the network of the target alone
        self, source_ids_BS: Tensor, ids_BT: Tensor, source_padding_BS: Tensor | None = None
    ) -> Tensor:
        """Scores of the next token of the target, [B, T, V]."""
        return self.head(self.features(ids_BT, memory=self.encode(source_ids_BS, source_padding_BS)))

    def given(self, memory: Memory) -> GivenSource:
        return GivenSource(self, memory)

    def new_cache(self, *, capacity: int | None = None, rows: int | None = None) -> ModelCache:
        """An empty cache of the decoder."""
        return self.decoder.new_cache(capacity=capacity, rows=rows)

    def cache_bytes(self, *, rows: int, capacity: int) -> int:
        return self.decoder.cache_bytes(rows=rows, capacity=capacity)


@final
class GivenSource(Network):
    """The decoder with its sources: a network of the target alone. Shares all weights."""

    decoder_path = "network.decoder."
    """Where its own parts are: what a look inside it shows."""

    def __init__(self, network: EncoderDecoder, memory: Memory) -> None:
        super().__init__()
        self.network, self.memory, self.dims = network, memory, network.dims
        self._by_rows: dict[int, Memory] = {memory.rows: memory}
        self.training = network.training

    @property
    def head(self) -> nn.Module:  # type: ignore[override]
        return self.network.head

    @property
    def embedding(self) -> nn.Module:
        return self.network.embedding

    @property
    def config(self) -> ModelConfig:
        return self.network.decoder.config

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(self.network.decoder.order)

    def features(self, ids_BT: Tensor, **more: Any) -> Tensor:
        rows = len(ids_BT)
        if not self.memory.keep:
            memory = self.memory.for_rows(rows)
        elif rows not in self._by_rows:
            memory = self._by_rows[rows] = self.memory.for_rows(rows)
        else:
            memory = self._by_rows[rows]
        return self.network.features(ids_BT, memory=memory, **more)

    def new_cache(self, *, capacity: int | None = None, rows: int | None = None) -> ModelCache:
        return self.network.new_cache(capacity=capacity, rows=rows)

    def cache_bytes(self, *, rows: int, capacity: int) -> int:
        return self.network.cache_bytes(rows=rows, capacity=capacity)
