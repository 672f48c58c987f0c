"""Value embeddings: by hand, with a learned share and with a gate; only the layer's values change."""

from __future__ import annotations

import pytest
import torch

from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.transformer import build_model
from glassformer.model.values.embedding import ValueEmbeddingConfig

DIMS = Dims(width=4, heads=2, layers=1, context=5, vocabulary=3)


def test_by_hand() -> None:
    part = ValueEmbeddingConfig().build(DIMS)
    with torch.no_grad():
        part.table.weight.copy_(torch.arange(12.0).view(3, 4))
        part.share_G.copy_(torch.tensor([1.0, 10.0]))
    found = part(torch.zeros(1, 2, 2, 2), torch.zeros(1, 2, 4), torch.tensor([[2, 0]]))
    assert found.tolist() == [[[[8.0, 9.0], [0.0, 1.0]], [[100.0, 110.0], [20.0, 30.0]]]]


def test_a_gate_by_hand() -> None:
    part = ValueEmbeddingConfig(gate=1).build(DIMS)
    with torch.no_grad():
        part.table.weight.fill_(1.0)
        part.gate.weight.copy_(torch.tensor([[1.0], [0.0]]))
    found = part(torch.zeros(1, 2, 1, 2), torch.tensor([[[2.0, 9.0, 9.0, 9.0]]]), torch.tensor([[1]]))
    assert found[0, :, 0, 0].tolist() == pytest.approx([3 / (1 + 2.718281828**-2), 1.5])


def test_it_reaches_only_the_layers_that_have_it() -> None:
    sizes = {"width": 12, "heads": 3, "layers": 3, "context": 7}
    model = build_model(ModelConfig.parse({**sizes, "mixer": ["dot", {"kind": "dot", "values": "embedding"}]}), 11, seed=1)
    tables = [name for name, _ in model.named_parameters() if "values.table" in name]
    assert tables == ["blocks.1.attention.mixer.values.table.weight"]
    plain = build_model(ModelConfig.parse(sizes), 11, seed=1).state_dict()
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in plain.items())  # all else starts as before
