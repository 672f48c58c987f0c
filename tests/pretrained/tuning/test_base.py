"""Sizes of an encoder, and which arguments it takes."""

from __future__ import annotations

from pathlib import Path

from glassformer.pretrained.encoders import load_encoder
from glassformer.pretrained.tuning.base import TUNINGS, accepted, sizes_of


def test_sizes(bert_folder: Path, roberta_folder: Path) -> None:
    bert, roberta = (load_encoder(str(folder)).encoder for folder in (bert_folder, roberta_folder))
    sizes = sizes_of(bert, "tiny")
    assert (sizes.width, sizes.heads, sizes.layers, sizes.positions) == (12, 3, 2, 40)
    assert sizes.linear["encoder.layer.1.attention.self.query"] == (12, 12)
    assert sizes.parameters == sum(parameter.numel() for parameter in bert.parameters())
    assert sizes_of(roberta, "tiny").positions == 40  # its first position stands after the id of padding
    assert {"input_ids", "past_key_values", "inputs_embeds"} <= accepted(bert)


def test_five_ways() -> None:
    assert set(TUNINGS.names()) == {"full", "head", "prompt", "prefix", "lora"}
