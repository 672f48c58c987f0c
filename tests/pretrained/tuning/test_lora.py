"""LoRA begins as the encoder it is put on, and its merged matrix does what the two do."""

from __future__ import annotations

from pathlib import Path

import torch

from glassformer.pretrained.encoders import load_encoder
from glassformer.pretrained.tuning.base import TUNINGS, sizes_of
from glassformer.pretrained.tuning.lora import lora_maps


def test_it_begins_as_nothing_and_merges(bert_folder: Path) -> None:
    plain, encoder = (load_encoder(str(bert_folder)).encoder.eval() for _ in range(2))
    sizes = sizes_of(encoder, "tiny")
    config = TUNINGS.parse({"kind": "lora", "rank": 2, "alpha": 6.0})
    config.apply(encoder, sizes, torch.Generator().manual_seed(1))
    ids = torch.tensor([[2, 5, 9, 3]])
    expected = plain(input_ids=ids).last_hidden_state
    torch.testing.assert_close(encoder(input_ids=ids).last_hidden_state, expected, rtol=0, atol=0)
    maps = dict(lora_maps(encoder))
    assert len(maps) == 4
    one = maps["encoder.layer.0.attention.self.query"]
    with torch.no_grad():
        one.lora_B += 0.3
    x = torch.randn(5, 12)
    torch.testing.assert_close(one(x), x @ one.merged().T + one.base.bias)
    assert config.trainable(sizes) == 4 * 2 * (12 + 12)
