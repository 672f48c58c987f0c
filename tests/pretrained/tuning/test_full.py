"""Tuning by full: which weights of the encoder want a gradient, and the formula."""

from __future__ import annotations

from pathlib import Path

import torch

from glassformer.pretrained.encoders import load_encoder
from glassformer.pretrained.tuning.base import TUNINGS, sizes_of


def test_which_weights_are_trained(bert_folder: Path) -> None:
    encoder = load_encoder(str(bert_folder)).encoder
    sizes, config = sizes_of(encoder, "tiny"), TUNINGS.parse("full")
    reader = config.apply(encoder, sizes, torch.Generator())
    trained = sum(parameter.numel() for parameter in encoder.parameters() if parameter.requires_grad)
    assert trained == config.trainable(sizes) == sizes.parameters
    assert not list(reader.parameters())
