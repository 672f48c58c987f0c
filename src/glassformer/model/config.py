"""The choices that make a model, and the sizes they imply once the vocabulary is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from glassformer.foundation.machine import memory_bytes
from glassformer.model.dims import Dims
from glassformer.model.network import MODELS, NetworkConfig
from glassformer.model.slots import (
    BLOCKS,
    FEEDFORWARDS,
    HEADS,
    MERGES,
    MIXERS,
    NORMS,
    POSITIONS,
    BlockConfig,
    FeedforwardConfig,
    HeadConfig,
    MergeConfig,
    MixerConfig,
    NormConfig,
    PartConfig,
    PositionsConfig,
)

if TYPE_CHECKING:
    from glassformer.model.accounting import Cost
    from glassformer.model.transformer import Transformer


@MODELS.variant("transformer")
class ModelConfig(NetworkConfig):
    """A Transformer built from named parts."""

    kind_is_written: ClassVar[bool] = False
    # The upper limits are far beyond any model of a lab: they refuse slips of the finger before anything is built.
    width: int = Field(default=128, ge=1, le=1 << 16)
    """Size of a token's vector (d_model, n_embd)."""
    layers: int = Field(default=4, ge=0, le=1 << 12)
    """Number of blocks."""
    heads: int = Field(default=4, ge=1, le=1 << 16)
    """Heads per mixer; must divide the width unless `head_width` is set."""
    head_width: int | None = Field(default=None, ge=1, le=1 << 16)
    """Size of each head's queries, keys and values (head_dim); by default the width divided by the heads."""
    context: int = Field(default=128, ge=1, le=1 << 22)
    """The most tokens read at once (block_size)."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of activations set to zero while training."""
    bias: bool = True
    """Whether linear maps and norms have biases."""
    causal: bool = True
    """Whether a position sees only itself and earlier ones. The checks refuse `false` for objectives that predict the next
    token."""
    segments: int = Field(default=0, ge=0, le=1 << 10)
    """Number of segment embeddings (BERT has two: first and second text); 0: none."""
    embedding_norm: bool = False
    """A norm after the embedding, before the first block (BERT)."""
    vocabulary: int | None = Field(default=None, ge=1, le=1 << 24)
    """Rows of the embedding, if more than the tokenizer's ids, as in some published models."""
    positions: Annotated[SerializeAsAny[PositionsConfig], BeforeValidator(POSITIONS.parse)] = POSITIONS.default("learned")
    mixer: Annotated[SerializeAsAny[MixerConfig], BeforeValidator(MIXERS.parse)] = MIXERS.default("dot")
    merge: Annotated[SerializeAsAny[MergeConfig], BeforeValidator(MERGES.parse)] = MERGES.default("concat")
    norm: Annotated[SerializeAsAny[NormConfig], BeforeValidator(NORMS.parse)] = NORMS.default("layer")
    feedforward: Annotated[SerializeAsAny[FeedforwardConfig], BeforeValidator(FEEDFORWARDS.parse)] = FEEDFORWARDS.default(
        "gelu"
    )
    block: Annotated[SerializeAsAny[BlockConfig], BeforeValidator(BLOCKS.parse)] = BLOCKS.default("pre")
    head: Annotated[SerializeAsAny[HeadConfig], BeforeValidator(HEADS.parse)] = HEADS.default("tied")

    def check_cache_inputs(self) -> Mapping[str, Any] | None:
        """Nothing else: its weights come from the seed."""
        return {} if type(self) is ModelConfig else None

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.head_width is None and self.width % self.heads:
            near = [n for n in range(1, self.width + 1) if self.width % n == 0]
            raise ValueError(
                f"model.heads={self.heads} does not divide model.width={self.width}; use one of {near} heads, "
                f"or a width such as {self.heads * max(1, round(self.width / self.heads))}."
            )
        if not self.mixer.any_head_width and self.dims(vocabulary=1).attention_width != self.width:
            raise ValueError(
                f"model.head_width={self.head_width} with model.heads={self.heads} makes attention another width than "
                f"model.width={self.width}, and model.mixer={self.mixer.kind} has no such form; choose dot or grouped."
            )
        if self.positions.applies_to not in self.mixer.accepts_positions:
            raise ValueError(
                f"model.positions={self.positions.kind} has no effect with model.mixer={self.mixer.kind}: it acts through "
                f"the {self.positions.applies_to}, which this mixer does not use; choose positions that act through one of "
                f"{sorted(self.mixer.accepts_positions - {'nothing'})}, or none."
            )
        for part in self.parts:
            incompatibility = part.incompatibility(self.dims(vocabulary=1))  # no part's fit depends on the vocabulary
            if incompatibility:
                raise ValueError(incompatibility)
        return self

    @property
    def parts(self) -> tuple[PartConfig, ...]:
        """The choice in every slot."""
        return self.positions, self.mixer, self.merge, self.norm, self.feedforward, self.block, self.head

    def build(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> Transformer:
        from glassformer.model.accounting import parts_of  # both know this config
        from glassformer.model.transformer import build_model

        weights = 4 * sum(part.parameters for part in parts_of(self, vocabulary, outputs=outputs))
        if weights > (memory := memory_bytes()):  # Linux would grant it, and kill the process when it is filled
            raise MemoryError(f"the weights alone take {weights / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f}")
        return build_model(self, vocabulary, outputs=outputs, seed=seed)

    def shapes(self, vocabulary: int, *, outputs: int | None = None) -> Transformer:
        import torch

        from glassformer.model.transformer import Transformer  # which knows this config

        with torch.device("meta"):
            return Transformer(self, vocabulary, outputs)

    def cost(self, vocabulary: int, *, outputs: int | None = None, batch: int) -> Cost:
        from glassformer.model.accounting import cost_of  # which knows this config

        return cost_of(self, vocabulary, outputs=outputs, batch=batch)

    def dims(self, vocabulary: int, outputs: int | None = None) -> Dims:
        """The sizes every part is built with."""
        return Dims(
            width=self.width,
            heads=self.heads,
            layers=self.layers,
            context=self.context,
            vocabulary=max(vocabulary, self.vocabulary or 0),
            dropout=self.dropout,
            bias=self.bias,
            causal=self.causal,
            outputs=outputs,
            own_head_width=self.head_width,
        )
