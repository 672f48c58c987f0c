"""The interfaces of a model's parts: positions, mixer, merge, norm, feed-forward, block, stack, head; and their slots.

A variant is one file in the slot's package: a config (choices; counts its FLOPs) above the module it
builds. What leaves a slot empty (``none``) stands at the end of this file. FLOPs are those of matrix products in one forward
pass of the reference implementation, as torch's counter counts them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, final

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.foundation.registry import Slot, VariantConfig
from glassformer.model.attention import attention_pattern
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import InitialWeights
from glassformer.model.kv_cache import CachePlacement, KVCache, LayerCache, RecurrentCache, cache_of


class PartConfig(VariantConfig):
    """What every part's config can say: what it costs, where it does not fit, which laws it breaks."""

    breaks: ClassVar[frozenset[str]] = frozenset()
    """Laws this variant is known to break, such as "causality" (all laws: checks/check_report.py). The checks find them."""
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """Settings with which the conformance suite tries this variant, the plain one first."""
    own_losses: ClassVar[tuple[str, ...]] = ()
    """The names of the losses that it adds to the objective's in training."""
    steps_to_learn: ClassVar[int] = 20
    """Steps on one batch after which its loss has fallen by a tenth at least, in the conformance suite's tiny model."""

    def incompatibility(self, dims: Dims) -> str | None:
        """Why this part cannot be built with these sizes or would do nothing, as a sentence; None: it fits."""
        return None

    def untrained(self, dims: Dims) -> dict[str, slice]:
        """Parameters (by name, and which rows of them) that no gradient reaches; part of the variant's nature."""
        return {}

    @property
    def starts_silent(self) -> bool:
        """Whether outputs start at zero, so that gradients reach the parameters before them only after a first step."""
        return False

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        """Matrix-product FLOPs of one forward pass over ``batch`` rows of ``length`` tokens."""
        return 0

    def backward_flops(self, dims: Dims, batch: int, length: int) -> int:
        """Those of the backward pass: two products for each of the forward pass, one for either factor's gradient."""
        return 2 * self.flops(dims, batch, length)


class Positions(nn.Module):
    """How a model tells positions apart: by ``embed``, ``rotate`` or ``bias``. A variant uses one; the others do nothing."""

    def embed(self, x_BTD: Tensor, position_ids_BT: Tensor) -> Tensor:
        """Added to the token vectors (learned, sinusoidal)."""
        return x_BTD

    def rotate(self, x_BHTE: Tensor, position_ids_BT: Tensor) -> Tensor:
        """Applied to queries and keys (rotary)."""
        return x_BHTE

    def bias(self, position_ids_BT: Tensor, num_keys: int) -> Tensor | None:
        """Added to the scores, broadcastable to [B, H, T, S] (ALiBi, T5)."""
        return None

    def of_layer(self, layer: int) -> Positions:
        """Those of one layer; one object serves all layers, unless the slot is a list."""
        return self


class PositionsConfig(PartConfig):
    """A way to tell positions apart. ``applies_to`` names the method of ``Positions`` by which it acts."""

    applies_to: ClassVar[str] = "nothing"
    """"embedding", "rotation", "bias" or "nothing". A mixer without it in ``accepts_positions`` refuses the combination."""

    def build(self, dims: Dims) -> Positions:
        raise NotImplementedError


class Mixer(nn.Module, ABC):
    """Moves information between positions: attention, or what stands in its place.

    Elsewhere tokens meet only in heads that pool a whole row, and in merges that say so in ``breaks`` ("reweight").
    """

    @abstractmethod
    def forward(self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: Any) -> Tensor:
        """Per-head outputs [B, H, T, E], not yet merged. ``cache``: None, or what ``new_cache`` made for this layer."""

    def new_cache(self, placement: CachePlacement) -> LayerCache | None:
        """An empty cache for generation: keys and values, unless a mixer stores something else, or nothing."""
        return KVCache(placement)


class MixerConfig(PartConfig):
    """A way to mix."""

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding"})
    """The values of ``PositionsConfig.applies_to`` that have an effect in this mixer."""
    lends_values: ClassVar[bool] = False
    """Whether it passes its values through ``attention_context.with_values``, so that a stack can change them."""
    lends_keys: ClassVar[bool] = False
    """Whether it gives its keys and values to later layers that ask for them (``attention_context.lend_keys``)."""
    borrows_keys: ClassVar[bool] = False
    """Whether it needs an earlier layer that lends its keys and values."""
    any_head_width: ClassVar[bool] = False
    """Whether it can be built with heads that side by side are narrower or wider than the model (``model.head_width``)."""

    def build(self, dims: Dims) -> Mixer:
        raise NotImplementedError

    def cache_width(self, dims: Dims) -> int:
        """Numbers that the KV cache stores of each token in one layer, at most: a key and a value of every head."""
        return 2 * dims.attention_width

    def cache_positions(self, capacity: int) -> int:
        """How many positions it stores of a text of ``capacity``: fewer in a window, one where it is a recurrence."""
        return capacity


class RecurrentMixer(Mixer):
    """A mixer that stores a state of fixed size in place of keys and values."""

    def new_cache(self, placement: CachePlacement) -> RecurrentCache:
        return RecurrentCache(placement)


class RecurrentMixerConfig(MixerConfig):
    def cache_positions(self, capacity: int) -> int:
        return 1


class CrossConfig(PartConfig):
    """How the decoder of an encoder-decoder reads the source: a mixer over ``attention_context.memory``."""

    def build(self, dims: Dims) -> Mixer | None:
        """The mixer; None: there is none."""
        raise NotImplementedError


class QueryKeyMap(nn.Module):
    """What happens to queries and keys before positions turn them and their products are formed; here: nothing."""

    scale: float | None = None
    """The factor on the products that fits these queries and keys; None: 1/sqrt(head width)."""

    def forward(self, q_BHTE: Tensor, k_BGTE: Tensor) -> tuple[Tensor, Tensor]:
        """Queries of H heads and keys of G heads, of the new tokens alone."""
        return q_BHTE, k_BGTE


class QueryKeyConfig(PartConfig):
    """A slot inside softmax attention. Queries have ``dims.heads`` heads, keys have ``dims.kv_heads``."""

    def build(self, dims: Dims) -> QueryKeyMap:
        raise NotImplementedError


class ValueMap(nn.Module):
    """What happens to the values before they are cached and averaged; here: nothing."""

    def forward(self, v_BGTE: Tensor, x_BTD: Tensor, ids_BT: Tensor) -> Tensor:
        """``x_BTD``: what the mixer read. ``ids_BT``: the tokens themselves."""
        return v_BGTE


class ValueConfig(PartConfig):
    """A slot inside softmax attention. Values have ``dims.kv_heads`` heads."""

    def build(self, dims: Dims) -> ValueMap:
        raise NotImplementedError


class ScoreMap(nn.Module):
    """What happens to the scaled products before biases of positions and the mask; here: nothing."""

    def forward(self, scores_BHTS: Tensor) -> Tensor:
        return scores_BHTS


class ScoreConfig(PartConfig):
    """A slot inside softmax attention."""

    def build(self, dims: Dims) -> ScoreMap:
        raise NotImplementedError


class Normaliser(nn.Module):
    """Scores -> pattern, how much of each value a query takes; here: softmax."""

    averages: ClassVar[bool] = True
    """Whether what a query takes sums to one."""

    def forward(self, scores_BHTS: Tensor, mask: Tensor | None) -> Tensor:
        """``mask``: True where a query may attend, broadcastable to the scores; None: everywhere. Elsewhere: 0."""
        return attention_pattern(scores_BHTS, mask)


class NormaliserConfig(PartConfig):
    """A slot inside softmax attention."""

    def build(self, dims: Dims) -> Normaliser:
        raise NotImplementedError


class HeadOutput(nn.Module):
    """What happens to the heads' outputs before they are merged; here: nothing."""

    def forward(self, z_BHTE: Tensor, x_BTD: Tensor) -> Tensor:
        """``x_BTD``: what the mixer read."""
        return z_BHTE


class OutputConfig(PartConfig):
    """A slot inside softmax attention."""

    def build(self, dims: Dims) -> HeadOutput:
        raise NotImplementedError


class Merge(nn.Module, ABC):
    """Per-head outputs -> one vector per token, before the output projection."""

    @abstractmethod
    def forward(self, z_BHTE: Tensor) -> Tensor:
        """[B, H, T, E] -> [B, T, H * E]."""


class MergeConfig(PartConfig):
    """A way to put the heads together."""

    def build(self, dims: Dims) -> Merge:
        raise NotImplementedError


def needs_two_heads(config: MergeConfig, dims: Dims) -> str | None:
    """The incompatibility of merges that only reorder heads."""
    if dims.heads > 1:
        return None
    return f"model.merge={config.kind} has no effect with model.heads=1: nothing to reorder; choose more heads, or concat."


class NormConfig(PartConfig):
    """A normalisation of each token's vector."""

    def build(self, dims: Dims) -> nn.Module:
        raise NotImplementedError


class Feedforward(nn.Module, ABC):
    """A feed-forward that needs more than the vectors: the mask, earlier tokens, a loss of its own. One that does not is any
    module of the vectors [B, T, D] alone."""

    shapes_follow_tokens: ClassVar[bool] = False
    """Whether the shapes of its products depend on the tokens: then a token is rounded differently beside other tokens."""

    @abstractmethod
    def forward(self, x_BTD: Tensor, attention_context: AttentionContext, cache: Any) -> Tensor:
        """``cache``: None, or what ``new_cache`` made for this layer."""

    def new_cache(self, placement: CachePlacement) -> LayerCache | None:
        """An empty cache for generation, if it reads earlier tokens."""
        return None


def feed(feedforward: nn.Module, x_BTD: Tensor, attention_context: AttentionContext, cache: LayerCache | None) -> Tensor:
    """What a block's feed-forward makes of the vectors."""
    if isinstance(feedforward, Feedforward):
        return feedforward(x_BTD, attention_context, cache_of(cache, feedforward))
    return feedforward(x_BTD)


class FeedforwardConfig(PartConfig):
    """What happens inside each token's vector after mixing."""

    def cache_width(self, dims: Dims) -> int:
        """Numbers that a cache stores of each token in one layer, at most."""
        return 0

    def build(self, dims: Dims) -> nn.Module:
        raise NotImplementedError


class Block(nn.Module, ABC):
    """One layer: attention and feed-forward around the residual stream."""

    @abstractmethod
    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: LayerCache | None
    ) -> Tensor: ...


@dataclass(frozen=True)
class LayerParts:
    """Makes the parts of one layer, each call a new one with weights of its own."""

    attention: Callable[[], nn.Module]
    feedforward: Callable[[], nn.Module]
    norm: Callable[[], nn.Module]
    cross: Callable[[], nn.Module] | None = None
    """Attention to a source, for the decoder of an encoder-decoder; None: there is no source."""


class BlockConfig(PartConfig):
    """How attention, feed-forward, norms and residual sums are wired. Its cost is what it adds to its parts'."""

    norms: ClassVar[int] = 2
    """How many norms one block makes."""
    feedforwards: ClassVar[int] = 1
    """How many feed-forwards."""
    takes_cross: ClassVar[bool] = False
    """Whether it can attend to a source between attention and feed-forward (``make.cross``), with one more norm."""
    norm_at_end: ClassVar[bool] = False
    """Whether the stack needs one more norm before the head."""

    @property
    def num_norms(self) -> int:
        """``norms``, or what a setting makes of it."""
        return self.norms

    def build(self, dims: Dims, make: LayerParts) -> Block:
        raise NotImplementedError


class Layer(Protocol):
    """One layer of a pass: its block with its positions and its cache. ``values``: what is made of its values [B, H, T, E]."""

    def __call__(self, x_BTD: Tensor, *, values: Callable[[Tensor], Tensor] | None = None) -> Tensor: ...


class Stack(nn.Module, ABC):
    """The way from the embedding through the layers. Holds what it learns itself; the blocks are the model's."""

    @abstractmethod
    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        """The vectors after the last layer; each layer is called once, in order."""


class StackConfig(PartConfig):
    """Which block comes when, and what travels between the layers. Its cost is what it adds to the layers'."""

    changes_values: ClassVar[bool] = False
    """Whether it needs mixers that let it change their values (``MixerConfig.lends_values``)."""

    def block_of(self, dims: Dims, layer: int) -> int:
        """The block that layer number ``layer`` applies; the same one again where blocks are shared."""
        return layer

    def build(self, dims: Dims) -> Stack:
        raise NotImplementedError


class ContextEmbedding(nn.Embedding, ABC):
    """An embedding that sees more than each id: earlier ids, with a cache."""

    @abstractmethod
    def embed(self, ids_BT: Tensor, attention_context: AttentionContext, cache: Any) -> Tensor:
        """Vectors [B, T, D]. ``cache``: None, or what ``new_cache`` made."""

    def new_cache(self, placement: CachePlacement) -> LayerCache:
        """An empty cache for generation: of vectors by position, unless an embedding stores something else."""
        return KVCache(placement)


class EmbeddingConfig(PartConfig):
    """How ids become vectors."""

    can_be_tied: ClassVar[bool] = True
    """Whether its ``weight`` is [V, D], so that a head can share it."""

    def build(self, dims: Dims) -> nn.Embedding:
        raise NotImplementedError


class InitConfig(PartConfig):
    """How weights start; of what each draws from, see model/initialisation.py."""

    def std_of(self, weights: InitialWeights, dims: Dims) -> float:
        """The standard deviation of a module's normal weights."""
        raise NotImplementedError

    def lr_factor(self, name: str, parameter: nn.Parameter, dims: Dims) -> float:
        """What ``training.lr`` is multiplied by for one parameter, where the start asks for rates of its own."""
        return 1.0


class LinearHead(nn.Module):
    """A head that is one product: ``weight`` [V, D], and ``bias`` [V] or None."""

    def __init__(self, weight_VD: Tensor, bias_V: Tensor | None = None) -> None:
        super().__init__()
        self.weight, self.bias = weight_VD, bias_V

    def forward(self, x_BTD: Tensor) -> Tensor:
        return F.linear(x_BTD, self.weight, self.bias)

    def padded(self, x_BTD: Tensor, *, unit: int) -> Tensor:
        """The same, and columns without meaning up to a multiple of ``unit``."""
        spare = -self.weight.shape[0] % unit
        bias = None if self.bias is None else F.pad(self.bias, (0, spare))
        return F.linear(x_BTD, F.pad(self.weight, (0, 0, 0, spare)), bias)


class HeadConfig(PartConfig):
    """Vectors -> scores of the vocabulary, or ``dims.outputs`` numbers where an objective asks for those.

    A head is called with the vectors [B, T, D]; one that pools also with the key padding mask [B, T] (True at padding). One
    that adds a loss of its own in training has ``add_losses(x_BTD, ids_BT, attention_context)``.
    """

    shares_embedding: ClassVar[bool] = False
    """Whether it reads the embedding's matrix."""
    pools: ClassVar[bool] = False
    """Whether it gives numbers for a whole row, [B, outputs], and not for each token."""

    @property
    def reads_embedding(self) -> bool:
        """``shares_embedding``, or what a setting makes of it."""
        return self.shares_embedding

    def incompatibility(self, dims: Dims) -> str | None:
        """A head that shares the embedding's matrix has a score for each token."""
        if not self.reads_embedding or dims.scores_tokens:
            return None
        return (
            f"model.head={self.kind} gives one score for each of {dims.vocabulary} tokens, but the objective asks for "
            f"{dims.outputs} numbers; choose model.head=untied."
        )

    def build(self, dims: Dims, embedding: nn.Embedding) -> nn.Module:
        raise NotImplementedError


class ProductHeadConfig(HeadConfig):
    """A head whose scores are one product of the vectors."""

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, dims.num_outputs)


POSITIONS: Slot[PositionsConfig] = Slot("model.positions", "how positions are encoded", "glassformer.model.positions")
MIXERS: Slot[MixerConfig] = Slot("model.mixer", "how tokens exchange information", "glassformer.model.mixers")
CROSS: Slot[CrossConfig] = Slot("model.cross", "how a decoder attends to the source", "glassformer.model.cross")
QUERY_KEY_MAPS: Slot[QueryKeyConfig] = Slot("model.mixer.qk", "what is done to queries and keys", "glassformer.model.qk")
VALUE_MAPS: Slot[ValueConfig] = Slot("model.mixer.values", "what is done to values", "glassformer.model.values")
SCORE_MAPS: Slot[ScoreConfig] = Slot("model.mixer.scores", "what is done to attention scores", "glassformer.model.scores")
NORMALISERS: Slot[NormaliserConfig] = Slot(
    "model.mixer.normaliser", "how scores become attention weights", "glassformer.model.normalisers"
)
OUTPUTS: Slot[OutputConfig] = Slot("model.mixer.output", "what is done to the heads' outputs", "glassformer.model.outputs")
MERGES: Slot[MergeConfig] = Slot("model.merge", "how attention heads are combined", "glassformer.model.merges")
NORMS: Slot[NormConfig] = Slot("model.norm", "how vectors are normalised", "glassformer.model.norms")
FEEDFORWARDS: Slot[FeedforwardConfig] = Slot(
    "model.feedforward", "what is computed for each token alone", "glassformer.model.feedforwards"
)
BLOCKS: Slot[BlockConfig] = Slot("model.block", "how the parts of a layer are wired", "glassformer.model.blocks")
EMBEDDINGS: Slot[EmbeddingConfig] = Slot("model.embedding", "how ids become vectors", "glassformer.model.embeddings")
INITS: Slot[InitConfig] = Slot("model.init", "how weights start", "glassformer.model.inits")
STACKS: Slot[StackConfig] = Slot("model.stack", "what travels between the layers", "glassformer.model.stacks")
HEADS: Slot[HeadConfig] = Slot("model.head", "how logits are computed", "glassformer.model.heads")


@POSITIONS.variant("none")
@final
class NoPositions(PositionsConfig):
    """Nothing is added: only the causal mask gives order (Haviv et al. 2022)."""

    def build(self, dims: Dims) -> Positions:
        return Positions()


@CROSS.variant("none")
@final
class NoCross(CrossConfig):
    """The decoder never sees the source: a language model of the targets. The checks report that it ignores its source."""

    def build(self, dims: Dims) -> None:
        return None


@QUERY_KEY_MAPS.variant("none")
@final
class NoQueryKeyMap(QueryKeyConfig):
    """Queries and keys as they are (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> QueryKeyMap:
        return QueryKeyMap()


@VALUE_MAPS.variant("none")
@final
class NoValueMap(ValueConfig):
    """Values as they are (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> ValueMap:
        return ValueMap()


@SCORE_MAPS.variant("none")
@final
class NoScoreMap(ScoreConfig):
    """Scores as they are (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> ScoreMap:
        return ScoreMap()


@OUTPUTS.variant("none")
@final
class NoHeadOutput(OutputConfig):
    """The heads' outputs as they are (Vaswani et al. 2017)."""

    def build(self, dims: Dims) -> HeadOutput:
        return HeadOutput()


@NORMS.variant("none")
@final
class NoNorm(NormConfig):
    """The vectors as they are: the ablation that removes normalisation."""

    def build(self, dims: Dims) -> nn.Module:
        return nn.Identity()
