"""Muon: which weights it takes, and that its step is a turned one, of AdamW's size."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.training.optimizers.muon import MuonConfig, for_muon


def test_which_weights_it_takes() -> None:
    matrix, vector = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(3))
    assert for_muon("blocks.0.feedforward.up.weight", matrix)
    assert not for_muon("blocks.0.feedforward.up.bias", vector)
    assert not for_muon("blocks.0.attention.mixer.places_bias_HS", matrix)
    assert not for_muon("embedding.weight", matrix)
    assert not for_muon("head.weight", matrix)


def test_it_takes_the_matrices_of_a_pretrained_encoder_too() -> None:
    """Their layers have other names; without them Muon would be AdamW and nobody would know."""
    matrix = nn.Parameter(torch.ones(2, 3))
    for name in ("encoder.encoder.layer.0.intermediate.dense.weight", "encoder.layers.3.fc1.weight", "h.0.mlp.c_fc.weight"):
        assert for_muon(name, matrix), name
    assert not for_muon("encoder.embeddings.word_embeddings.weight", matrix)
    assert not for_muon("encoder.encoder.layer.0.output.LayerNorm.weight", nn.Parameter(torch.ones(3)))


def test_two_optimizers_share_the_parameters() -> None:
    parameters = {name: nn.Parameter(torch.randn(4, 5)) for name in ("blocks.0.a.weight", "embedding.weight")}
    muon, adamw = MuonConfig(lr_factor=3.0).build(parameters, lr=0.1, weight_decay=0.2)
    assert type(muon).__name__ == "Orthogonal"
    assert muon.param_groups[0]["lr"] == pytest.approx(0.3)
    assert muon.param_groups[0]["params"][0] is parameters["blocks.0.a.weight"]
    assert adamw.param_groups[0]["params"][0] is parameters["embedding.weight"]
    assert len(MuonConfig().build({"embedding.weight": parameters["embedding.weight"]}, lr=0.1, weight_decay=0.0)) == 1


def test_the_step_has_nearly_equal_singular_values_and_the_size_of_adamw() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(6, 8))
    (muon,) = MuonConfig().build({"blocks.0.a.weight": weight}, lr=1.0, weight_decay=0.0)
    weight.grad = torch.randn(6, 8) @ torch.diag(torch.tensor([10.0, 5.0, 3.0, 2.0, 1.0, 1.0, 0.5, 0.5]))
    muon.step()
    values = torch.linalg.svdvals(weight.detach())
    assert values.max() / values.min() < 3  # the gradient's are 30 apart
    assert weight.detach().square().mean().sqrt().item() == pytest.approx(0.2, rel=0.35)  # AdamW's root mean square
