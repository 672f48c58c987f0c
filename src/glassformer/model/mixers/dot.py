"""Softmax dot-product attention: the definition, and the fused kernel beside it."""

from __future__ import annotations

from typing import ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import attention_pattern, attention_scores
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.memory import LayerMemory
from glassformer.model.scene import Scene
from glassformer.model.slots import MIXERS, Mixer, MixerConfig, Positions
from glassformer.model.tap import Tap


@MIXERS.variant("dot")
@final
class DotConfig(MixerConfig):
    """Softmax of scaled dot products of queries and keys (Vaswani et al. 2017)."""

    takes: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation", "bias"})

    fused: bool = True
    """Use torch's fused kernel; False runs the definition."""

    def build(self, dims: Dims) -> Dot:
        return Dot(dims, fused=self.fused)

    def parameters(self, dims: Dims) -> int:
        return dims.linear_parameters(dims.width, 3 * dims.width)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 3 * dims.width)
        scores_and_values = 2 * matmul_flops(batch, length, length, dims.width)
        return projections + scores_and_values


@final
class Dot(Mixer):
    def __init__(self, dims: Dims, *, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = dims.heads, fused
        self.qkv = nn.Linear(dims.width, 3 * dims.width, bias=dims.bias)
        self.pattern_dropout = nn.Dropout(dims.dropout)
        self.query, self.key, self.value, self.scores, self.pattern = Tap(), Tap(), Tap(), Tap(), Tap()

    def forward(self, x_BTD: Tensor, scene: Scene, positions: Positions, memory: LayerMemory | None) -> Tensor:
        length, device = x_BTD.shape[1], x_BTD.device
        at_BT = scene.query_positions(length, device)
        q_BHTE, k_BHTE, v_BHSE = (self.split(part) for part in self.qkv(x_BTD).chunk(3, dim=-1))
        q_BHTE = self.query(positions.rotate(q_BHTE, at_BT))
        k_BHSE = self.key(positions.rotate(k_BHTE, at_BT))
        v_BHSE = self.value(v_BHSE)
        if memory is not None:
            k_BHSE, v_BHSE = memory.extend("key", k_BHSE), memory.extend("value", v_BHSE)
        bias_BHTS = positions.bias(at_BT, k_BHSE.shape[2])
        if self.fused and not (self.scores.in_use or self.pattern.in_use):  # the kernel never forms them
            return self.fused_mix(q_BHTE, k_BHSE, v_BHSE, scene, bias_BHTS)
        return self.mix(q_BHTE, k_BHSE, v_BHSE, scene, bias_BHTS)

    def mix(self, q_BHTE: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, scene: Scene, bias_BHTS: Tensor | None) -> Tensor:
        """The definition."""
        scores_BHTS = attention_scores(q_BHTE, k_BHSE)
        if bias_BHTS is not None:
            scores_BHTS = scores_BHTS + bias_BHTS
        visible = scene.visible(q_BHTE.shape[2], k_BHSE.shape[2], q_BHTE.device)
        pattern_BHTS = self.pattern(attention_pattern(self.scores(scores_BHTS), visible))
        return self.pattern_dropout(pattern_BHTS) @ v_BHSE

    def fused_mix(self, q_BHTE: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, scene: Scene, bias_BHTS: Tensor | None) -> Tensor:
        """The same by torch's kernel."""
        drop = self.pattern_dropout.p if self.training else 0.0
        if scene.plain and bias_BHTS is None:
            return F.scaled_dot_product_attention(q_BHTE, k_BHSE, v_BHSE, dropout_p=drop, is_causal=scene.causal)
        visible = scene.visible(q_BHTE.shape[2], k_BHSE.shape[2], q_BHTE.device)
        mask = visible
        if bias_BHTS is not None:
            mask = bias_BHTS if visible is None else torch.where(visible, bias_BHTS, -torch.inf)
            mask = mask.to(q_BHTE.dtype)
        z_BHTE = F.scaled_dot_product_attention(q_BHTE, k_BHSE, v_BHSE, attn_mask=mask, dropout_p=drop)
        if scene.hidden_BS is None or visible is None:
            return z_BHTE
        return z_BHTE.masked_fill(~visible.any(dim=-1, keepdim=True), 0.0)  # kernels differ on rows that see nothing

    def split(self, x_BTD: Tensor) -> Tensor:
        """[B, T, H * E] -> [B, H, T, E]."""
        return x_BTD.unflatten(-1, (self.heads, -1)).transpose(1, 2)
