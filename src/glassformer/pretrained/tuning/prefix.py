"""Prefix tuning: every layer gets trained keys and values that all tokens can see."""

from __future__ import annotations

from typing import Any, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.pretrained.tuning.base import TUNINGS, EncoderSizes, Reader, TuningConfig, forward_arguments


@TUNINGS.variant("prefix")
@final
class PrefixConfig(TuningConfig):
    """Trained keys and values before those of the text, in each layer, and the head (Li and Liang 2021)."""

    length: int = Field(default=16, ge=1, le=4096)

    def places(self) -> int:
        return self.length  # positions of the text begin after the prefix, as in peft

    def trainable(self, sizes: EncoderSizes) -> int:
        return self.length * 2 * sizes.layers * sizes.width

    def incompatibility(self, encoder: nn.Module, sizes: EncoderSizes) -> str | None:
        if "past_key_values" in forward_arguments(encoder):
            return None
        return (
            f"model.tuning=prefix needs an encoder that takes keys and values from outside (past_key_values), and "
            f"{type(encoder).__name__} does not; choose prompt, lora, head or full."
        )

    def apply(self, encoder: nn.Module, sizes: EncoderSizes, generator: torch.Generator) -> Prefix:
        encoder.requires_grad_(False)
        return Prefix(self.length, sizes, generator)


@final
class Prefix(Reader):
    """One row per place of the prefix: keys and values of all layers, one after another."""

    def __init__(self, length: int, sizes: EncoderSizes, generator: torch.Generator) -> None:
        super().__init__()
        self.length, self.heads, self.layers = length, sizes.heads, sizes.layers
        self.prefix = nn.Parameter(torch.randn(length, 2 * sizes.layers * sizes.width, generator=generator) * 0.02)

    def forward(self, encoder: Any, ids_BT: Tensor, seen_BT: Tensor, types_BT: Tensor | None) -> Tensor:
        from transformers import DynamicCache

        rows = ids_BT.shape[0]  # not len(), which torch.export takes for a constant
        by_layer = self.prefix.view(self.length, 2 * self.layers, self.heads, -1).permute(1, 2, 0, 3)  # [2 L, H, P, E]
        cache = DynamicCache()
        for layer in range(self.layers):
            key_HPE, value_HPE = by_layer[2 * layer], by_layer[2 * layer + 1]
            cache.update(key_HPE.expand(rows, -1, -1, -1), value_HPE.expand(rows, -1, -1, -1), layer)
        return self.read(
            encoder,
            torch.cat([seen_BT.new_ones(rows, self.length), seen_BT], dim=1),
            input_ids=ids_BT,
            token_type_ids=types_BT,
            past_key_values=cache,
        )
