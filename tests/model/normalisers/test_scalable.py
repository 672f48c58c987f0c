"""Scalable softmax by hand: n to the power a s."""

from __future__ import annotations

import torch

from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.normalisers.scalable import ScalableConfig
from glassformer.model.transformer import build_model

DIMS = Dims(width=12, heads=2, layers=1, context=7, vocabulary=11)


def test_by_hand() -> None:
    normaliser = ScalableConfig().build(DIMS)
    with torch.no_grad():
        normaliser.factor_H.copy_(torch.tensor([1.0, 2.0]))
    scores = torch.tensor([0.0, 1.0, 8.0]).expand(1, 2, 1, 3)
    pattern = normaliser(scores, torch.tensor([True, True, False]))
    torch.testing.assert_close(pattern[0, :, 0], torch.tensor([[1 / 3, 2 / 3, 0.0], [1 / 5, 4 / 5, 0.0]]))  # 2^0 : 2^(a s)


def test_at_first_the_last_query_of_a_full_context_is_plain_softmax() -> None:
    sizes = {"width": 12, "heads": 3, "layers": 1, "context": 7}
    plain, scalable = (
        build_model(ModelConfig(**sizes, mixer={"kind": "dot", "normaliser": kind}), 11, seed=1)
        for kind in ("softmax", "scalable")
    )
    ids = torch.arange(7).unsqueeze(0)
    torch.testing.assert_close(scalable(ids)[:, -1], plain(ids)[:, -1])
    assert not torch.allclose(scalable(ids)[:, 3], plain(ids)[:, 3], atol=1e-9, rtol=0)
