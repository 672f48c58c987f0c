"""Prompt tuning: trained vectors are prepended to the token embeddings."""

from __future__ import annotations

from typing import Any, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.pretrained.tuning.base import TUNINGS, EncoderSizes, Reader, TuningConfig, forward_arguments


@TUNINGS.variant("prompt")
@final
class PromptConfig(TuningConfig):
    """Trained vectors before the input, and the head: 130 d + 2 numbers for 128 of them and two labels (Lester et al. 2021).

    Exercises also call this prefix tuning; here ``prefix`` has keys and values in every layer.
    """

    length: int = Field(default=128, ge=1, le=4096)

    def places(self) -> int:
        return self.length

    def trainable(self, sizes: EncoderSizes) -> int:
        return self.length * sizes.width

    def incompatibility(self, encoder: nn.Module, sizes: EncoderSizes) -> str | None:
        if "inputs_embeds" in forward_arguments(encoder):
            return None
        return (
            f"model.tuning=prompt needs an encoder that reads vectors (inputs_embeds), and {type(encoder).__name__} does not."
        )

    def apply(self, encoder: nn.Module, sizes: EncoderSizes, generator: torch.Generator) -> Prompt:
        encoder.requires_grad_(False)
        return Prompt(encoder, self.length, generator)


@final
class Prompt(Reader):
    """The vectors are initialised with random tokens' embeddings, which learns faster than noise."""

    def __init__(self, encoder: Any, length: int, generator: torch.Generator) -> None:
        super().__init__()
        table_VD = encoder.get_input_embeddings().weight.detach()
        drawn = torch.randint(table_VD.shape[0], (length,), generator=generator)
        self.prompt = nn.Parameter(table_VD[drawn].clone())
        self.virtual = length

    def forward(self, encoder: Any, ids_BT: Tensor, seen_BT: Tensor, types_BT: Tensor | None) -> Tensor:
        rows = ids_BT.shape[0]  # not len(), which torch.export takes for a constant
        text_BTD = encoder.get_input_embeddings()(ids_BT)
        prompt_BPD = self.prompt.to(text_BTD.dtype).expand(rows, -1, -1)
        ones_BP = seen_BT.new_ones(rows, self.virtual)
        return self.read(
            encoder,
            torch.cat([ones_BP, seen_BT], dim=1),
            inputs_embeds=torch.cat([prompt_BPD, text_BTD], dim=1),
            token_type_ids=None if types_BT is None else torch.cat([torch.zeros_like(ones_BP), types_BT], dim=1),
        )
