"""Soft-capped scores, with the embedding's matrix or one of its own."""

from __future__ import annotations

import torch

from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

SIZES = {"width": 12, "heads": 3, "layers": 1, "context": 7}


def test_by_hand() -> None:
    plain, capped = (
        build_model(ModelConfig(**SIZES, head=head), 11, seed=1) for head in ("tied", {"kind": "softcap", "cap": 0.5})
    )
    features = 40 * torch.randn(2, 3, 12)
    expected = 0.5 * torch.tanh(plain.head(features) / 0.5)
    torch.testing.assert_close(capped.head(features), expected)
    assert expected.abs().max() > 0.4
    assert capped.head.weight is capped.embedding.weight


def test_a_matrix_of_its_own_starts_as_the_untied_one() -> None:
    untied, capped = (
        build_model(ModelConfig(**SIZES, head=head), 11, seed=1) for head in ("untied", {"kind": "softcap", "tied": False})
    )
    assert torch.equal(untied.head.weight, capped.head.weight)
    assert capped.head.weight is not capped.embedding.weight
