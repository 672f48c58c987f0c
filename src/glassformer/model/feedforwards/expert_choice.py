"""A mixture of experts in which the experts choose the tokens: balanced by construction, and not causal."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.feedforwards.experts import ExpertLinear, ExpertsSettings, expert
from glassformer.model.initialisation import start
from glassformer.model.slots import FEEDFORWARDS


@FEEDFORWARDS.variant("expert_choice")
@final
class ExpertChoiceConfig(ExpertsSettings):
    """Each expert takes the tokens of a text it scores highest, as many as every other (Zhou et al. 2022): not causal.

    Whether a token is taken depends on the tokens after it, so a language model with it is invalid; encoders may use it. Each
    expert takes active / experts of the tokens, rounded up; the softmax of the scores runs over the experts.
    """

    breaks: ClassVar[frozenset[str]] = frozenset({"causality", "padding", "cache"})
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"experts": 3, "active": 1, "inner": 5},)

    def build(self, dims: Dims) -> ExpertChoice:
        return ExpertChoice(dims, self)

    def taken(self, length: int) -> int:
        """Tokens of a text of this length that each expert takes."""
        return min(length, -(-length * self.active // self.experts))

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        tokens = batch * self.experts * self.taken(length)
        return matmul_flops(batch * length, dims.width, self.experts) + 3 * matmul_flops(
            tokens, dims.width, self.inner_width(dims)
        )


@final
class ExpertChoice(nn.Module):
    def __init__(self, dims: Dims, config: ExpertChoiceConfig) -> None:
        super().__init__()
        self.config = config
        inner = config.inner_width(dims)
        self.router = nn.Linear(dims.width, config.experts, bias=False)
        self.gate_and_up = start(ExpertLinear(config.experts, dims.width, 2 * inner))
        self.down = start(ExpertLinear(config.experts, inner, dims.width), writes_residual=True)

    def forward(self, x_BTD: Tensor) -> Tensor:
        share_BTE = self.router(x_BTD).softmax(dim=-1)
        best_BCE, token_BCE = share_BTE.topk(self.config.taken(x_BTD.shape[1]), dim=1)
        mixed_BTD = torch.zeros_like(x_BTD)
        for number in range(self.config.experts):
            at_BCD = token_BCE[..., number, None].expand(-1, -1, x_BTD.shape[-1])
            made_BCD = expert(self.gate_and_up, self.down, number, x_BTD.gather(1, at_BCD))
            mixed_BTD = mixed_BTD.scatter_add(1, at_BCD, (made_BCD * best_BCE[..., number, None]).to(x_BTD.dtype))
        return mixed_BTD
