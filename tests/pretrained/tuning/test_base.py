"""Sizes of an encoder, and which arguments it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from glassformer.pretrained.encoders import load_encoder
from glassformer.pretrained.tuning.base import TUNINGS, forward_arguments, sizes_of, takes_whole_mask, whole_mask


def test_sizes(bert_folder: Path, roberta_folder: Path) -> None:
    bert, roberta = (load_encoder(str(folder)).encoder for folder in (bert_folder, roberta_folder))
    sizes = sizes_of(bert, "tiny")
    assert (sizes.width, sizes.heads, sizes.layers, sizes.positions) == (12, 3, 2, 40)
    assert sizes.linear["encoder.layer.1.attention.self.query"] == (12, 12)
    assert sizes.parameters == sum(parameter.numel() for parameter in bert.parameters())
    assert sizes_of(roberta, "tiny").positions == 40  # its first position stands after the id of padding
    assert {"input_ids", "past_key_values", "inputs_embeds"} <= forward_arguments(bert)


def test_six_ways() -> None:
    assert set(TUNINGS.names()) == {"full", "head", "prompt", "prefix", "lora", "contrastive"}


def test_a_whole_mask_says_for_each_query_which_keys_it_sees() -> None:
    mask = whole_mask(torch.tensor([[1, 1, 0], [1, 0, 0]]), 2)
    assert mask.dtype == torch.bool
    assert mask.shape == (2, 1, 2, 3)
    assert mask[:, 0].tolist() == [[[True, True, False]] * 2, [[True, False, False]] * 2]


class Strange(nn.Module):
    """An encoder whose vectors are means of what its mask lets it see; it makes something of another mask, or refuses it."""

    def __init__(self, *, refuses: bool) -> None:
        super().__init__()
        self.table, self.refuses = nn.Embedding(9, 5), refuses

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> object:
        if self.refuses and attention_mask.ndim != 2:
            raise ValueError("Wrong shape for attention_mask")
        seen_BT1 = attention_mask.float().reshape(len(input_ids), -1, 1)[:, -input_ids.shape[1] :]
        vectors = self.table(input_ids)
        if attention_mask.ndim == 2:
            vectors = (vectors * seen_BT1).mean(1, keepdim=True).expand_as(vectors)
        return type("Output", (), {"last_hidden_state": vectors})()


@pytest.mark.parametrize("refuses", [False, True])
def test_an_encoder_that_does_not_understand_a_whole_mask_is_found(refuses: bool, bert_folder: Path) -> None:
    assert takes_whole_mask(load_encoder(str(bert_folder)).encoder)
    assert not takes_whole_mask(Strange(refuses=refuses))
