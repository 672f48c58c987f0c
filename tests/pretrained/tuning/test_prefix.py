"""A prefix: keys and values that weigh nothing change nothing but the places; others reach every layer."""

from __future__ import annotations

from pathlib import Path

import torch

from glassformer.pretrained.encoders import load_encoder
from glassformer.pretrained.tuning.base import TUNINGS, sizes_of


def test_the_prefix_is_seen_in_every_layer(bert_folder: Path) -> None:
    encoder = load_encoder(str(bert_folder)).encoder.eval()
    reader = TUNINGS.parse({"kind": "prefix", "length": 3}).apply(encoder, sizes_of(encoder, "tiny"), torch.Generator())
    ids = torch.tensor([[2, 5, 9, 3]])
    start = reader(encoder, ids, torch.ones_like(ids), None)
    assert start.shape == (1, 4, 12)
    for layer in (0, 1):
        with torch.no_grad():
            before = reader.prefix.clone()
            reader.prefix[:, 2 * layer * 12 + 12 : 2 * layer * 12 + 24] += 1.0  # the values of this layer
            changed = reader(encoder, ids, torch.ones_like(ids), None)
            reader.prefix.copy_(before)
        assert float((changed - start).detach().abs().max()) > 1e-3
