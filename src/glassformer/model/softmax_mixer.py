"""What mixers with weights over keys share: scores, or queries and keys -> mixed values.

Not a variant: the files in model/mixers say where the scores come from. The reference implementation (``mix``)
forms scores and pattern, which can be looked at; the fused kernel never does, so a look at either runs the reference. So do
scores and normalisers that the kernel does not know (model/scores, model/normalisers).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import attention_scores
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.slots import Mixer, Normaliser, ScoreMap
from glassformer.model.tap import BY_HEAD, PATTERN, Tap


class SoftmaxMixer(Mixer):
    """Values averaged by a softmax of scores, or by what stands in its place; a subclass makes the scores in ``forward``."""

    def __init__(
        self, dims: Dims, *, fused: bool = False, score_map: ScoreMap | None = None, normaliser: Normaliser | None = None
    ) -> None:
        super().__init__()
        self.heads, self.fused = dims.heads, fused
        self.score_map, self.normaliser = score_map or ScoreMap(), normaliser or Normaliser()
        self.pattern_dropout = nn.Dropout(dims.dropout)
        self.value, self.scores, self.pattern = Tap(BY_HEAD), Tap(PATTERN), Tap(PATTERN, averages=self.normaliser.averages)

    @property
    def takes_fast_path(self) -> bool:
        plain = type(self.score_map) is ScoreMap and type(self.normaliser) is Normaliser
        return self.fused and plain and not (self.scores.in_use or self.pattern.in_use)

    def attend(
        self,
        q_BHTE: Tensor,
        k_BHSE: Tensor,
        v_BHSE: Tensor,
        attention_context: AttentionContext,
        bias_BHTS: Tensor | None,
        *,
        scale: float | None = None,
    ) -> Tensor:
        """Dot-product attention: by torch's fused kernel, or by the equations if ``fused`` is off or a hook wants scores."""
        # On CUDA the gradient of a bias is summed in no fixed order; a mask has none, and in deterministic mode its kernel's
        # backward pass does not split the keys, so padded batches stay on the fused path.
        unordered = bias_BHTS is not None and q_BHTE.is_cuda and torch.is_grad_enabled()
        if not self.takes_fast_path or unordered:
            return self.mix(attention_scores(q_BHTE, k_BHSE, scale=scale), v_BHSE, attention_context, bias_BHTS)
        width = v_BHSE.shape[-1]
        if q_BHTE.shape[-1] == width:
            return self._fused_mix(q_BHTE, k_BHSE, v_BHSE, attention_context, bias_BHTS, scale)
        # The fastest kernels need queries, keys and values of one width: pad with zeros, and cut the padding off the output.
        scale = 1.0 / math.sqrt(q_BHTE.shape[-1]) if scale is None else scale
        wide = max(q_BHTE.shape[-1], width)
        q_BHTE, k_BHSE, v_BHSE = (F.pad(tensor, (0, wide - tensor.shape[-1])) for tensor in (q_BHTE, k_BHSE, v_BHSE))
        return self._fused_mix(q_BHTE, k_BHSE, v_BHSE, attention_context, bias_BHTS, scale)[..., :width]

    def mix(self, scores_BHTS: Tensor, v_BHSE: Tensor, attention_context: AttentionContext, bias_BHTS: Tensor | None) -> Tensor:
        """The reference implementation: ``attention.attend`` from its scores on, with taps, a bias and dropout."""
        scores_BHTS = self.score_map(scores_BHTS)
        if bias_BHTS is not None:
            scores_BHTS = scores_BHTS + bias_BHTS
        mask = attention_context.attention_mask(scores_BHTS.shape[2], v_BHSE.shape[2], v_BHSE.device)
        pattern_BHTS = self.pattern(self.normaliser(self.scores(scores_BHTS), mask))
        return self.pattern_dropout(pattern_BHTS) @ v_BHSE

    def _fused_mix(
        self,
        q_BHTE: Tensor,
        k_BHSE: Tensor,
        v_BHSE: Tensor,
        attention_context: AttentionContext,
        bias_BHTS: Tensor | None,
        scale: float | None,
    ) -> Tensor:
        """The same by torch's kernel."""
        drop = self.pattern_dropout.p if self.training else 0.0
        if attention_context.has_no_extra_mask and bias_BHTS is None:
            return F.scaled_dot_product_attention(
                q_BHTE, k_BHSE, v_BHSE, dropout_p=drop, is_causal=attention_context.causal, scale=scale
            )
        mask = attention_context.attention_mask(q_BHTE.shape[2], k_BHSE.shape[2], q_BHTE.device)
        added = mask
        if bias_BHTS is not None:
            added = (bias_BHTS if mask is None else torch.where(mask, bias_BHTS, -torch.inf)).to(q_BHTE.dtype)
        z_BHTE = F.scaled_dot_product_attention(q_BHTE, k_BHSE, v_BHSE, attn_mask=added, dropout_p=drop, scale=scale)
        if attention_context.key_padding_mask_BS is None or mask is None:
            return z_BHTE
        return z_BHTE.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)  # kernels differ on rows that see nothing
