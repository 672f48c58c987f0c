"""The choices that make a model, and the sizes they imply once the vocabulary is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from glassformer.foundation.machine import memory_bytes
from glassformer.model.dims import Dims
from glassformer.model.network import MODELS, Network, NetworkConfig
from glassformer.model.slots import (
    BLOCKS,
    EMBEDDINGS,
    FEEDFORWARDS,
    HEADS,
    INITS,
    MERGES,
    MIXERS,
    NORMS,
    POSITIONS,
    STACKS,
    BlockConfig,
    EmbeddingConfig,
    FeedforwardConfig,
    HeadConfig,
    InitConfig,
    MergeConfig,
    MixerConfig,
    NormConfig,
    PartConfig,
    PositionsConfig,
    StackConfig,
)

if TYPE_CHECKING:
    from glassformer.model.accounting import Cost
    from glassformer.model.transformer import Transformer


T = TypeVar("T")
P = TypeVar("P", bound=PartConfig)
PerLayer = SerializeAsAny[T] | tuple[SerializeAsAny[T], ...]
"""One choice for all layers, or two and more that repeat over them."""


def entries(choice: P | tuple[P, ...]) -> tuple[P, ...]:
    """The choices of a slot: one, or those of a list."""
    return choice if isinstance(choice, tuple) else (choice,)


class LayerChoices(NamedTuple):
    """The choices that hold in one layer."""

    positions: PositionsConfig
    mixer: MixerConfig
    merge: MergeConfig
    norm: NormConfig
    feedforward: FeedforwardConfig
    block: BlockConfig


LISTS = LayerChoices._fields
"""The slots that may be lists."""


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
    positions: Annotated[PerLayer[PositionsConfig], BeforeValidator(POSITIONS.parse_layers)] = POSITIONS.default("learned")
    mixer: Annotated[PerLayer[MixerConfig], BeforeValidator(MIXERS.parse_layers)] = MIXERS.default("dot")
    merge: Annotated[PerLayer[MergeConfig], BeforeValidator(MERGES.parse_layers)] = MERGES.default("concat")
    norm: Annotated[PerLayer[NormConfig], BeforeValidator(NORMS.parse_layers)] = NORMS.default("layer")
    feedforward: Annotated[PerLayer[FeedforwardConfig], BeforeValidator(FEEDFORWARDS.parse_layers)] = FEEDFORWARDS.default(
        "gelu"
    )
    block: Annotated[PerLayer[BlockConfig], BeforeValidator(BLOCKS.parse_layers)] = BLOCKS.default("pre")
    embedding: Annotated[SerializeAsAny[EmbeddingConfig], BeforeValidator(EMBEDDINGS.parse)] = EMBEDDINGS.default("plain")
    init: Annotated[SerializeAsAny[InitConfig], BeforeValidator(INITS.parse)] = INITS.default("normal")
    stack: Annotated[SerializeAsAny[StackConfig], BeforeValidator(STACKS.parse)] = STACKS.default("plain")
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
        dims = self.dims(vocabulary=1)  # no part's fit depends on the vocabulary
        for choice in (self.embedding, self.stack, self.head):
            self._require_fit(choice, dims)
        if self.head.reads_embedding and not self.embedding.can_be_tied:
            raise ValueError(
                f"model.head={self.head.kind} shares the embedding's matrix, and that of model.embedding={self.embedding.kind} "
                "has another width; choose model.head=untied."
            )
        for slot in LISTS:
            if self.layers and len(entries(getattr(self, slot))) > self.num_blocks:
                raise ValueError(
                    f"model.{slot} lists {len(getattr(self, slot))} entries for {self.num_blocks} "
                    f"block{'s' * (self.num_blocks > 1)} (model.layers={self.layers}), so some would be unused; give fewer "
                    "entries or more layers."
                )
        for number, positions in enumerate(entries(self.positions)):
            if number and positions.applies_to == "embedding":
                raise ValueError(
                    f"model.positions.{number}={positions.kind} adds to the embedding, which is done once, before the first "
                    "layer; put it first in the list, or choose positions that act in every layer."
                )
        of_layers = [self.of_layer(block) for block in range(max(1, self.num_blocks))]
        for layer, choices in enumerate(of_layers):
            self._mixer_fits(choices.positions, choices.mixer)
            alike = getattr(choices.mixer, "kv_heads", None) == getattr(of_layers[0].mixer, "kv_heads", None)
            if self.stack.changes_values and not (choices.mixer.lends_values and alike):
                raise ValueError(
                    f"model.stack={self.stack.kind} mixes the values of layers, and model.mixer={choices.mixer.kind} in block "
                    f"{layer} has none of the same shape; choose dot with one number of kv_heads."
                )
            for part in choices:
                self._require_fit(part, replace(dims, layer=layer))
        self._keys_can_be_borrowed()
        return self

    def _keys_can_be_borrowed(self) -> None:
        lender: LayerChoices | None = None
        for layer, block in enumerate(self.order):
            choices = self.of_layer(block)
            if choices.mixer.lends_keys:
                lender = choices
            elif choices.mixer.borrows_keys and (lender is None or lender.positions != choices.positions):
                raise ValueError(
                    f"model.mixer={choices.mixer.kind} in layer {layer} takes the keys of an earlier layer with the same "
                    "positions, and there is none; put a dot before it, as in model.mixer=[dot, borrowed]."
                )

    @staticmethod
    def _require_fit(part: PartConfig, dims: Dims) -> None:
        incompatibility = part.incompatibility(dims)
        if incompatibility:
            raise ValueError(incompatibility)

    def _mixer_fits(self, positions: PositionsConfig, mixer: MixerConfig) -> None:
        if not mixer.any_head_width and self.dims(vocabulary=1).attention_width != self.width:
            raise ValueError(
                f"model.head_width={self.head_width} with model.heads={self.heads} makes attention another width than "
                f"model.width={self.width}, and model.mixer={mixer.kind} has no such form; choose dot or grouped."
            )
        if positions.applies_to not in mixer.accepts_positions:
            raise ValueError(
                f"model.positions={positions.kind} has no effect with model.mixer={mixer.kind}: it acts through "
                f"the {positions.applies_to}, which this mixer does not use; choose positions that act through one of "
                f"{sorted(mixer.accepts_positions - {'nothing'})}, or none."
            )

    def of_layer(self, layer: int) -> LayerChoices:
        """The choices in one block: entry ``layer`` of each list, counted on from its beginning when it ends."""
        lists = (entries(getattr(self, slot)) for slot in LISTS)
        return LayerChoices(*(one[layer % len(one)] for one in lists))

    @property
    def order(self) -> tuple[int, ...]:
        """The block that each layer applies."""
        dims = self.dims(vocabulary=1)
        return tuple(self.stack.block_of(dims, layer) for layer in range(self.layers))

    @property
    def num_blocks(self) -> int:
        """Blocks with weights of their own: as many as layers, unless the stack shares them."""
        return max(self.order, default=-1) + 1

    @property
    def parts(self) -> tuple[PartConfig, ...]:
        """The choices in every slot."""
        return (
            *(one for slot in LISTS for one in entries(getattr(self, slot))),
            self.embedding,
            self.init,
            self.stack,
            self.head,
        )

    @property
    def last_layer(self) -> LayerChoices:
        """Those of the last layer, whose norm and block also decide what stands before the head."""
        return self.of_layer(self.order[-1] if self.layers else 0)

    def build(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> Transformer:
        from glassformer.model.transformer import build_model  # which knows this config

        return build_model(self, vocabulary, outputs=outputs, seed=seed)

    def network(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> Network:
        weights = 4 * sum(weight.numel() for weight in self.shapes(vocabulary, outputs=outputs).parameters())
        if weights > (memory := memory_bytes()):  # Linux would grant it, and kill the process when it is filled
            raise MemoryError(f"the weights alone take {weights / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f}")
        return super().network(vocabulary, outputs=outputs, seed=seed)

    def shapes(self, vocabulary: int, *, outputs: int | None = None) -> Transformer:
        import torch

        from glassformer.model.transformer import Transformer  # which knows this config

        class Unfilled(torch.overrides.TorchFunctionMode):
            """torch fills embeddings, and on meta tensors it imports its compiler for that: a second of every process."""

            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                fills = getattr(func, "__module__", None) == "torch.nn.init"
                return kwargs["tensor"] if fills else func(*args, **(kwargs or {}))

        with torch.device("meta"), Unfilled():
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
