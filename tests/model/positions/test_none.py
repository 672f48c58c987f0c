"""No positions: nothing is added, nothing is trained; only the causal rule tells places apart."""

from __future__ import annotations

import torch

from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.positions.none import NoneConfig
from glassformer.model.transformer import build_model

DIMS = Dims(width=2, heads=1, layers=1, context=3, vocabulary=7)


def test_nothing_is_added() -> None:
    positions, x_BTD = NoneConfig().build(DIMS), torch.randn(2, 3, 2)
    assert positions.embed(x_BTD, torch.arange(3)) is x_BTD
    assert NoneConfig().parameters(DIMS) == len(list(positions.parameters())) == 0


def test_without_the_causal_rule_order_is_invisible() -> None:
    config = ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": 7, "positions": "none", "causal": False})
    model = build_model(config, 11, seed=0).eval()
    ids_BT = torch.tensor([[1, 5, 3, 2, 9]])
    order = torch.tensor([4, 0, 3, 1, 2])
    torch.testing.assert_close(model(ids_BT[:, order]), model(ids_BT)[:, order])
