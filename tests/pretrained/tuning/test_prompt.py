"""A prompt made of token vectors reads like those tokens."""

from __future__ import annotations

from pathlib import Path

import torch

from glassformer.pretrained.encoders import load_encoder
from glassformer.pretrained.tuning.base import TUNINGS, sizes_of


def test_vectors_of_tokens_are_read_as_the_tokens(bert_folder: Path) -> None:
    encoder = load_encoder(str(bert_folder)).encoder.eval()
    reader = TUNINGS.parse({"kind": "prompt", "length": 3}).apply(encoder, sizes_of(encoder, "tiny"), torch.Generator())
    words = torch.tensor([7, 8, 9])
    with torch.no_grad():
        reader.prompt.copy_(encoder.get_input_embeddings().weight[words])
    ids = torch.tensor([[2, 5, 3], [2, 6, 3]])
    mine = reader(encoder, ids, torch.ones_like(ids), None)
    whole = torch.cat([words.expand(2, -1), ids], dim=1)
    torch.testing.assert_close(mine, encoder(input_ids=whole).last_hidden_state)
    assert mine.shape[1] == reader.virtual + 3
