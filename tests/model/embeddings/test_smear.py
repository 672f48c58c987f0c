"""The smeared embedding: by hand."""

from __future__ import annotations

import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.embeddings.smear import SmearConfig


def test_by_hand() -> None:
    part = SmearConfig(channels=1).build(Dims(width=2, heads=1, layers=1, context=4, vocabulary=3))
    with torch.no_grad():
        part.weight.copy_(torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]]))
        part.share.fill_(0.5)
        part.gate.weight.zero_()  # half open
    context = AttentionContext(causal=True)
    assert part.embed(torch.tensor([[2, 1, 0]]), context, None)[0, :, 1].tolist() == [4.0, 2.0 + 0.25 * 4, 1.0 + 0.25 * 2]
    documents = AttentionContext(causal=True, document_ids_BS=torch.tensor([[0, 1, 1]]))
    assert part.embed(torch.tensor([[2, 1, 0]]), documents, None)[0, :, 1].tolist() == [4.0, 2.0, 1.5]
