"""Mamba-2: a state space model whose quadratic form is attention with fading products."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.kv_cache import RecurrentCache
from glassformer.model.mixers.forgetting import running_sum
from glassformer.model.mixers.gated_delta import faded
from glassformer.model.norms.rms import RMSNorm
from glassformer.model.slots import MIXERS, Positions, RecurrentMixer, RecurrentMixerConfig
from glassformer.model.tap import BY_HEAD, PATTERN, Tap


@MIXERS.variant("mamba2")
@final
class Mamba2Config(RecurrentMixerConfig):
    """h = exp(-a d) h + d b x', y = c h + D x: a state space in its quadratic form, (C B' * L)(d X) (Mamba-2, Dao and Gu 2024).

    x, b and c pass a causal convolution of ``kernel`` tokens and silu; d (the step) is a softplus; y is gated by silu(z) and
    normed. b and c are one for all heads, with ``state`` numbers each. The heads side by side are as wide as the model, where
    the paper's are twice that. It reads from left to right in an encoder, too. The cache is h and what the convolution reads.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"state": 5}, {"kernel": 2})

    state: int = Field(default=64, ge=1)
    """Numbers of b and c: rows of the state (d_state)."""
    kernel: int = Field(default=4, ge=1)
    """Tokens that the convolution spans (d_conv)."""

    def build(self, dims: Dims) -> Mamba2:
        return Mamba2(dims, state=self.state, kernel=self.kernel)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        projections = matmul_flops(batch * length, dims.width, 2 * dims.width + 2 * self.state + dims.heads)
        running_sums = matmul_flops(batch, dims.heads, length, length)
        return projections + matmul_flops(batch, length, length, self.state + dims.width) + running_sums

    def backward_flops(self, dims: Dims, batch: int, length: int) -> int:
        # the triangle of the running sums is fixed, so they have one gradient
        return super().backward_flops(dims, batch, length) - matmul_flops(batch, dims.heads, length, length)

    def cache_width(self, dims: Dims) -> int:
        return dims.width * self.state + (self.kernel - 1) * (dims.width + 2 * self.state)


@final
class Mamba2(RecurrentMixer):
    def __init__(self, dims: Dims, *, state: int, kernel: int) -> None:
        super().__init__()
        self.heads = dims.heads
        self.read = (dims.width, state, state)
        self.sizes = (dims.width, sum(self.read), dims.heads)
        self.project = start(nn.Linear(dims.width, sum(self.sizes), bias=dims.bias), "project")
        self.kernel_KC = nn.Parameter(torch.empty(kernel, sum(self.read)))
        self.log_a_H, self.step_bias_H, self.skip_H = (nn.Parameter(torch.empty(dims.heads)) for _ in range(3))
        self.norm = RMSNorm(dims.width, eps=1e-5)
        self.value, self.pattern = Tap(BY_HEAD), Tap(PATTERN, averages=False)

    def init_weights(self, generator: torch.Generator) -> None:
        """As published: a between 1 and 16, steps between 0.001 and 0.1, skips of 1."""
        nn.init.uniform_(self.kernel_KC, -0.5, 0.5, generator=generator)
        nn.init.uniform_(self.log_a_H, 1.0, 16.0, generator=generator).log_()
        steps_H = nn.init.uniform_(self.step_bias_H, math.log(1e-3), math.log(1e-1), generator=generator).exp_()
        steps_H += torch.log(-torch.expm1(-steps_H))  # the inverse of softplus
        nn.init.ones_(self.skip_H)

    def forward(
        self, x_BTD: Tensor, attention_context: AttentionContext, positions: Positions, cache: RecurrentCache | None
    ) -> Tensor:
        gate_BTD, read_BTC, step_BTH = self.project(x_BTD).split(self.sizes, dim=-1)
        backwards = attention_context.backwards
        read_BTC = backwards.without_padding(read_BTC.unsqueeze(1)).squeeze(1)
        before = 0 if cache is None else len(self.kernel_KC) - 1
        if cache is not None:
            read_BTC = torch.cat([cache.read("read", read_BTC, before, read_BTC.shape[-1]), read_BTC], dim=1)
            cache.write("read", read_BTC[:, read_BTC.shape[1] - before :])
        convolved_BTC = F.silu(self.convolve(read_BTC, attention_context)[:, before:])
        x_BTD_, b_BTN, c_BTN = convolved_BTC.split(self.read, dim=-1)
        x_BHTE, b_B1TN, c_B1TN = self.value(split_heads(x_BTD_, self.heads)), b_BTN.unsqueeze(1), c_BTN.unsqueeze(1)
        step_BHT1 = split_heads(step_BTH, self.heads) + self.step_bias_H[:, None, None]
        step_BHT1 = backwards.without_padding(F.softplus(step_BHT1))
        log_a_BHT1, written_BHTE = -self.log_a_H.exp()[:, None, None] * step_BHT1, step_BHT1 * x_BHTE
        if cache is None or cache.begins:
            total_BHT1 = running_sum(log_a_BHT1)
            scores_B1TS = c_B1TN @ b_B1TN.transpose(-1, -2)
            pattern_BHTS = self.pattern(scores_B1TS * faded(total_BHT1, total_BHT1, backwards))
            y_BHTE = pattern_BHTS @ written_BHTE
            if cache is not None:
                left_BHT1 = torch.exp(total_BHT1[:, :, -1:] - total_BHT1)
                cache.write("state", (left_BHT1 * b_B1TN).transpose(2, 3) @ written_BHTE)
        else:
            y_BHTE = self.recur(b_B1TN, c_B1TN, written_BHTE, log_a_BHT1.exp(), cache)
        y_BHTE = y_BHTE + self.skip_H[:, None, None] * x_BHTE
        y_BTD = y_BHTE.transpose(1, 2).flatten(-2) * F.silu(gate_BTD)
        return split_heads(self.norm(y_BTD).to(x_BTD.dtype), self.heads)

    @staticmethod
    def recur(b_B1TN: Tensor, c_B1TN: Tensor, written_BHTE: Tensor, a_BHT1: Tensor, cache: RecurrentCache) -> Tensor:
        """The same token by token: h = a h + b x', y = c h."""
        _, heads, length, width = written_BHTE.shape
        state_BHNE, read = cache.read("state", written_BHTE, heads, b_B1TN.shape[-1], width), []
        for at in range(length):
            b_B11N, c_B11N, x_BH1E, a_BH11 = (each[:, :, at : at + 1] for each in (b_B1TN, c_B1TN, written_BHTE, a_BHT1))
            state_BHNE = a_BH11 * state_BHNE + b_B11N.transpose(2, 3) @ x_BH1E
            read.append(c_B11N @ state_BHNE)
        cache.write("state", state_BHNE)
        return torch.cat(read, dim=2)

    def convolve(self, read_BSC: Tensor, attention_context: AttentionContext) -> Tensor:
        """Each channel's weighted sum over the last tokens of its own document."""
        length, documents_BS = read_BSC.shape[1], attention_context.document_ids_BS
        convolved_BSC = torch.zeros_like(read_BSC)
        for back, weight_C in enumerate(self.kernel_KC):
            earlier_BSC = F.pad(read_BSC, (0, 0, back, 0))[:, :length]
            if documents_BS is not None:
                here_BS = documents_BS[:, :length]
                same_BS = F.pad(here_BS, (back, 0), value=-1)[:, :length] == here_BS
                earlier_BSC = earlier_BSC * same_BS.unsqueeze(-1)
            convolved_BSC = convolved_BSC + weight_C * earlier_BSC
        return convolved_BSC
