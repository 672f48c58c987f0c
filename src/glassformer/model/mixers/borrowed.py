"""Attention to the keys and values of an earlier layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, final

from pydantic import BeforeValidator, Field, SerializeAsAny
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import CachePlacement
from glassformer.model.slots import MIXERS, QUERY_KEY_MAPS, MixerConfig, Positions, QueryKeyConfig
from glassformer.model.softmax_mixer import SoftmaxMixer
from glassformer.model.tap import BY_HEAD, Tap


@MIXERS.variant("borrowed")
@final
class BorrowedConfig(MixerConfig):
    """softmax(q k') v with the keys and values of the nearest ``dot`` layer before it (CLA, Brandon 2024; YOCO, Sun 2024).

    ``mixer: [dot, borrowed]`` halves the cache: this layer has queries of its own and stores nothing. Kv heads, window and
    masks are the lender's. ``qk`` must suit the lender's keys and have no weights (``{kind: rms, learned: false}``).
    """

    accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})
    any_head_width: ClassVar[bool] = True
    borrows_keys: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"fused": False}, {"qk": {"kind": "rms", "learned": False}})

    qk: Annotated[SerializeAsAny[QueryKeyConfig], BeforeValidator(QUERY_KEY_MAPS.parse)] = QUERY_KEY_MAPS.default("none")
    scale: float | None = Field(default=None, gt=0)
    """The factor on the dot products; none: 1/sqrt(head width), or what ``qk`` brings."""
    fused: bool = True
    """Use torch's fused kernel; False runs the reference implementation."""

    def incompatibility(self, dims: Dims) -> str | None:
        if not any(True for _ in self.qk.build(dims).parameters()):
            return self.qk.incompatibility(dims)
        return f"model.mixer.qk={self.qk.kind} has weights for keys, and model.mixer=borrowed has none; choose learned: false."

    def build(self, dims: Dims) -> Borrowed:
        return Borrowed(dims, self)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        scores_and_values = 2 * matmul_flops(batch, length, length, dims.attention_width)
        return matmul_flops(batch * length, dims.width, dims.attention_width) + scores_and_values

    def cache_width(self, dims: Dims) -> int:
        return 0


@final
class Borrowed(SoftmaxMixer):
    def __init__(self, dims: Dims, config: BorrowedConfig) -> None:
        super().__init__(dims, fused=config.fused)
        self.to_query = start(nn.Linear(dims.width, dims.attention_width, bias=dims.bias), "to_query")
        self.qk = config.qk.build(replace(dims, own_kv_heads=None))
        self.scale = self.qk.scale if config.scale is None else config.scale
        self.query = Tap(BY_HEAD)

    def new_cache(self, placement: CachePlacement) -> None:
        return None

    def forward(self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: None) -> Tensor:
        position_ids_BT = attention_context.query_position_ids(x_BTD.shape[1], x_BTD.device)
        q_BHTE = split_heads(self.to_query(x_BTD), self.heads)
        q_BHTE = self.query(positions.rotate(self.qk(q_BHTE, q_BHTE)[0], position_ids_BT))
        lent = attention_context.borrowed_keys
        bias_BHTS = lent.visible.bias_of_keys(positions.bias, position_ids_BT, lent.k_BHSE.shape[2])
        return self.attend(q_BHTE, lent.k_BHSE, self.value(lent.v_BHSE), lent.visible, bias_BHTS, scale=self.scale)
