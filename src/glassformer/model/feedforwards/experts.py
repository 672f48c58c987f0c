"""A mixture of experts: each token chooses a few of many small feed-forwards; no token is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor  # private, but what model/accounting.py traces with

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.slots import FEEDFORWARDS, Feedforward, FeedforwardConfig
from glassformer.model.tap import Tap


class ExpertsSettings(FeedforwardConfig):
    """``experts`` gated feed-forwards and a router, as token choice and expert choice have them."""

    experts: int = Field(default=8, ge=2, le=1 << 12)
    active: int = Field(default=2, ge=1)
    """Experts that each token passes through."""
    expansion: float = Field(default=4 / 3, gt=0)
    """Of each expert, so that two of them compute as much as one feed-forward ``gated``."""
    inner: int | None = Field(default=None, gt=0)

    def incompatibility(self, dims: Dims) -> str | None:
        if self.active <= self.experts:
            return None
        return f"model.feedforward.active={self.active} is more than model.feedforward.experts={self.experts}."

    def inner_width(self, dims: Dims) -> int:
        return self.inner or max(1, round(self.expansion * dims.width))


@FEEDFORWARDS.variant("experts")
@final
class ExpertsConfig(ExpertsSettings):
    """Each token is sent to the experts its router scores highest: sum_i p_i expert_i(x) (Shazeer et al. 2017; Mixtral 2024).

    p is the softmax of the router's scores, over the chosen ``active`` experts or, without ``renormalise``, over all (Switch,
    Fedus et al. 2021). An expert is SwiGLU without biases. Own losses:
    ``balance`` (with f_i the share of a text's tokens that chose expert i and P_i its mean probability: experts times
    sum f_i P_i, Fedus et al. 2021, taken text by text so that it does not depend on how the batch is cut) and ``router_z``
    (the squared log of the softmax's denominator, Zoph et al. 2022). On CUDA no step waits for the router: in bf16 the tokens
    are sorted by expert and each matrix is one grouped product; otherwise every expert reads every token, experts / active
    times the FLOPs counted here.
    """

    own_losses: ClassVar[tuple[str, ...]] = ("balance", "router_z")
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"experts": 3, "active": 1, "inner": 5, "renormalise": False})

    renormalise: bool = True
    """Whether the chosen experts' shares add up to 1."""
    balance: float = Field(default=0.01, ge=0)
    """The weight of the own loss ``balance``."""
    router_z: float = Field(default=0.001, ge=0)
    """The weight of the own loss ``router_z``."""

    def incompatibility(self, dims: Dims) -> str | None:
        if self.active == 1 and self.renormalise:
            return (
                "model.feedforward.active=1 with renormalise: true makes every share 1, and no gradient reaches the router; "
                "set model.feedforward.renormalise=false, or choose more."
            )
        return super().incompatibility(dims)

    def build(self, dims: Dims) -> Experts:
        return Experts(dims, self)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        rows = batch * length
        return matmul_flops(rows, dims.width, self.experts) + 3 * matmul_flops(
            self.active * rows, dims.width, self.inner_width(dims)
        )


@final
class ExpertLinear(nn.Module):
    """One matrix for each expert, [experts, outputs, inputs]."""

    def __init__(self, experts: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts, outputs, inputs))


def expert(gate_and_up: ExpertLinear, down: ExpertLinear, number: int, x_ND: Tensor) -> Tensor:
    """What one expert makes of some vectors."""
    gate, up = F.linear(x_ND, gate_and_up.weight[number]).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, down.weight[number])


@final
class Experts(Feedforward):
    shapes_follow_tokens: ClassVar[bool] = True

    def __init__(self, dims: Dims, config: ExpertsConfig) -> None:
        super().__init__()
        self.config = config
        inner = config.inner_width(dims)
        self.router = nn.Linear(dims.width, config.experts, bias=False)
        self.gate_and_up = start(ExpertLinear(config.experts, dims.width, 2 * inner))
        self.down = start(ExpertLinear(config.experts, inner, dims.width), writes_residual=True)
        self.routing = Tap("batch position expert")

    def forward(self, x_BTD: Tensor, attention_context: AttentionContext, cache: None) -> Tensor:
        scores_BTE = self.routing(self.router(x_BTD))
        best_BTK, chosen_BTK = scores_BTE.float().topk(self.config.active, dim=-1)
        share_BTK = best_BTK.softmax(dim=-1)
        if not self.config.renormalise:
            share_BTK = scores_BTE.float().softmax(dim=-1).gather(-1, chosen_BTK)
        if attention_context.own_losses is not None:
            self._add_losses(scores_BTE.float(), chosen_BTK, attention_context)
        x_ND, chosen_NK, share_NK = x_BTD.flatten(0, 1), chosen_BTK.flatten(0, 1), share_BTK.flatten(0, 1).to(x_BTD.dtype)
        return self.form_for(x_ND)(x_ND, chosen_NK, share_NK).view_as(x_BTD)

    def form_for(self, x_ND: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """The fastest of the three forms; on CUDA and in a compiled step one whose shapes do not depend on the routing."""
        if not x_ND.is_cuda:
            return self.mix_all if torch.compiler.is_compiling() else self.mix
        aligned = x_ND.shape[1] % 8 == 0 and self.down.weight.shape[2] % 8 == 0  # the kernel reads 16 bytes at a time
        grouped = (
            hasattr(F, "grouped_mm")
            and x_ND.dtype == torch.bfloat16
            and torch.cuda.get_device_capability(x_ND.device) >= (9, 0)
        )
        return self.mix_sorted if grouped and aligned else self.mix_all

    def mix(self, x_ND: Tensor, chosen_NK: Tensor, share_NK: Tensor) -> Tensor:
        """The definition: each expert reads the tokens that chose it."""
        mixed_ND = torch.zeros_like(x_ND)
        for number in range(self.config.experts):
            token_M, rank_M = self._readers(chosen_NK, number)
            made_MD = expert(self.gate_and_up, self.down, number, x_ND[token_M])
            mixed_ND = mixed_ND.index_add(0, token_M, (made_MD * share_NK[token_M, rank_M, None]).to(x_ND.dtype))
        return mixed_ND

    def _readers(self, chosen_NK: Tensor, number: int) -> tuple[Tensor, ...]:
        """Which tokens chose this expert, and as their how-manieth."""
        if isinstance(chosen_NK, FakeTensor):  # traced for its memory, not computed: as if each were chosen equally often
            share, rest = divmod(chosen_NK.numel(), self.config.experts)
            return torch.zeros(2, share + (number < rest), dtype=torch.long, device=chosen_NK.device).unbind(0)
        return (chosen_NK == number).nonzero(as_tuple=True)

    def mix_sorted(self, x_ND: Tensor, chosen_NK: Tensor, share_NK: Tensor) -> Tensor:
        """The same without waste: tokens sorted by expert, one grouped product for each matrix, and back to their places."""
        chosen_M, (rows, active) = chosen_NK.flatten(), chosen_NK.shape
        order_M = chosen_M.argsort(stable=True)
        number_E = torch.arange(self.config.experts, device=x_ND.device)
        ends_E = (chosen_M.unsqueeze(1) <= number_E).sum(dim=0, dtype=torch.int32)  # where each expert's tokens end
        x_MD = x_ND[order_M // active]
        gate, up = F.grouped_mm(x_MD, self.gate_and_up.weight.to(x_ND.dtype).mT, offs=ends_E).chunk(2, dim=-1)
        made_MD = F.grouped_mm(F.silu(gate) * up, self.down.weight.to(x_ND.dtype).mT, offs=ends_E)
        made_NKD = made_MD[order_M.argsort()].view(rows, active, -1)
        return (made_NKD * share_NK.unsqueeze(-1)).sum(dim=1)

    def mix_all(self, x_ND: Tensor, chosen_NK: Tensor, share_NK: Tensor) -> Tensor:
        """The same with shapes that do not depend on the routing: each expert reads every token."""
        share_NE = torch.zeros(len(x_ND), self.config.experts, dtype=x_ND.dtype, device=x_ND.device)
        share_NE = share_NE.scatter(1, chosen_NK, share_NK)
        mixed_ND = torch.zeros_like(x_ND)
        for number in range(self.config.experts):
            mixed_ND = mixed_ND + expert(self.gate_and_up, self.down, number, x_ND) * share_NE[:, number, None]
        return mixed_ND

    def _add_losses(self, scores_BTE: Tensor, chosen_BTK: Tensor, attention_context: AttentionContext) -> None:
        experts, padding_BT = self.config.experts, attention_context.key_padding_mask_BS
        real_BT1 = torch.ones_like(scores_BTE[..., :1]) if padding_BT is None else (~padding_BT).unsqueeze(-1).to(scores_BTE)
        tokens_B1 = real_BT1.sum(dim=1)
        picked_BE = (F.one_hot(chosen_BTK, experts).sum(dim=2) * real_BT1).sum(dim=1) / self.config.active
        probability_BE = (scores_BTE.softmax(dim=-1) * real_BT1).sum(dim=1)
        balance_B = experts * (picked_BE * probability_BE).sum(dim=-1) / tokens_B1.squeeze(-1).clamp(min=1)
        router_z = (scores_BTE.logsumexp(dim=-1, keepdim=True).square() * real_BT1).sum()
        attention_context.add_loss("balance", balance_B.sum(), weight=self.config.balance)
        attention_context.add_loss("router_z", router_z, weight=self.config.router_z)
