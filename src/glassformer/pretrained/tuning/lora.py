"""LoRA: chosen linear maps get a trained product of two thin matrices beside their frozen weight."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import final

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from glassformer.pretrained.tuning.base import TUNINGS, EncoderSizes, Reader, TuningConfig


@TUNINGS.variant("lora")
@final
class LoraConfig(TuningConfig):
    """W x + (alpha / rank) B A x with A and B trained, in the maps named by ``targets``, and the head (Hu et al. 2022)."""

    rank: int = Field(default=8, ge=1, le=1024)
    alpha: float = Field(default=16.0, gt=0)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    targets: list[str] = Field(default=["query", "value"], min_length=1)
    """The last part of the names of the linear maps that are tuned."""

    def chosen(self, sizes: EncoderSizes) -> dict[str, tuple[int, int]]:
        """The linear maps that are tuned, by name."""
        return {name: shape for name, shape in sizes.linear.items() if name.rpartition(".")[2] in self.targets}

    def trainable(self, sizes: EncoderSizes) -> int:
        return sum(self.rank * (inputs + outputs) for inputs, outputs in self.chosen(sizes).values())

    def incompatibility(self, encoder: nn.Module, sizes: EncoderSizes) -> str | None:
        found = {name.rpartition(".")[2] for name in self.chosen(sizes)}
        missing = [target for target in self.targets if target not in found]
        if not missing:
            return None
        there = sorted({name.rpartition(".")[2] for name in sizes.linear})
        if not there:
            return (
                f"model.tuning=lora has nothing to tune: {type(encoder).__name__} has no linear maps (nn.Linear); choose full."
            )
        return f"model.tuning.targets={missing[0]!r} is no linear map of {type(encoder).__name__}; it has: {', '.join(there)}."

    def apply(self, encoder: nn.Module, sizes: EncoderSizes, generator: torch.Generator) -> Reader:
        encoder.requires_grad_(False)
        for name in self.chosen(sizes):
            parent, _, last = name.rpartition(".")
            place = encoder.get_submodule(parent)
            setattr(place, last, LoraLinear(getattr(place, last), self, generator))
        return Reader()


@final
class LoraLinear(nn.Module):
    """A frozen linear map plus a trained low-rank update."""

    def __init__(self, base: nn.Linear, config: LoraConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.base, self.scale, self.drop = base, config.alpha / config.rank, config.dropout
        bound = 1 / math.sqrt(base.in_features)  # like nn.Linear; B starts at zero, so the output is unchanged at first
        self.lora_A = nn.Parameter(torch.empty(config.rank, base.in_features).uniform_(-bound, bound, generator=generator))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, config.rank))

    def forward(self, x: Tensor) -> Tensor:
        thin = F.linear(F.dropout(x, self.drop, self.training), self.lora_A)
        return self.base(x) + self.scale * F.linear(thin, self.lora_B)

    def merged(self) -> Tensor:
        """The merged weight matrix."""
        return self.base.weight + self.scale * self.lora_B @ self.lora_A


def lora_maps(encoder: nn.Module) -> Iterator[tuple[str, LoraLinear]]:
    """The tuned maps of an encoder by name."""
    for name, module in encoder.named_modules():
        if isinstance(module, LoraLinear):
            yield name, module
