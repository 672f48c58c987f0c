"""Linear, an activation, linear: by hand, and the inner width people ask for."""

from __future__ import annotations

import pytest
import torch

from glassformer.model.dims import Dims
from glassformer.model.feedforwards.mlp import GELUConfig, GELUTanhConfig, ReLUConfig

DIMS = Dims(width=2, heads=1, layers=1, context=5, vocabulary=7)


def set_by_hand(module: torch.nn.Module) -> None:
    with torch.no_grad():
        module.up.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        module.up.bias.copy_(torch.tensor([0.0, -1.0, 0.0]))
        module.down.weight.copy_(torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]))
        module.down.bias.copy_(torch.tensor([0.5, 0.0]))


def test_relu_by_hand() -> None:
    # (2, -1) -> up (2, -2, 1) -> ReLU (2, 0, 1) -> down (2.5, 2)
    module = ReLUConfig(inner=3).build(DIMS)
    set_by_hand(module)
    torch.testing.assert_close(module(torch.tensor([[2.0, -1.0]])), torch.tensor([[2.5, 2.0]]))


def test_gelu_by_hand() -> None:
    # GELU(x) = x times the normal distribution function: 2 * 0.9772499, -2 * 0.0227501, 1 * 0.8413447
    module = GELUConfig(inner=3).build(DIMS)
    set_by_hand(module)
    expected = torch.tensor([[2 * 0.9772499 - 2 * 0.0227501 + 0.5, 2 * 0.8413447]])
    torch.testing.assert_close(module(torch.tensor([[2.0, -1.0]])), expected, rtol=1e-5, atol=1e-6)


def test_the_inner_width() -> None:
    wide = Dims(width=12, heads=3, layers=1, context=5, vocabulary=7)
    assert GELUConfig().inner_width(wide) == 48
    assert ReLUConfig(expansion=2.5).inner_width(wide) == 30
    assert ReLUConfig(expansion=2.5, inner=5).inner_width(wide) == 5
    assert ReLUConfig(expansion=0.01).inner_width(wide) == 1


@pytest.mark.parametrize("config", [ReLUConfig(inner=5), GELUConfig(expansion=3.0)])
def test_each_token_alone(config, rng) -> None:
    module = config.build(DIMS)
    x = torch.randn(2, 5, 2, generator=rng)
    torch.testing.assert_close(module(x)[:, 3], module(x[:, 3]))


def test_gelu_by_tanh() -> None:
    # 2 -> 1.954598, -2 -> -0.045402, 1 -> 0.841192 by x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
    module = GELUTanhConfig(inner=3).build(DIMS)
    set_by_hand(module)
    expected = torch.tensor([[1.954598 - 0.045402 + 0.5, 2 * 0.841192]])
    torch.testing.assert_close(module(torch.tensor([[2.0, -1.0]])), expected, rtol=0, atol=2e-6)
