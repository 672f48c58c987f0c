"""ALiBi: published slopes, distances by hand, both directions in an encoder."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.positions.alibi import AlibiConfig, geometric_slopes


def test_published_slopes() -> None:
    assert geometric_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert geometric_slopes(1) == [2**-8]
    assert geometric_slopes(3) == pytest.approx([2**-4, 2**-8, 2**-2])  # two of a power of two, then from the next


def test_bias_by_hand() -> None:
    positions = AlibiConfig().build(Dims(width=6, heads=2, layers=1, context=5, vocabulary=7))
    bias_BHTS = positions.bias(torch.tensor([[2, 4]]), 5)
    assert bias_BHTS.shape == (1, 2, 2, 5)
    torch.testing.assert_close(bias_BHTS[0, 0, 0], -torch.tensor([2.0, 1.0, 0.0, 1.0, 2.0]) / 16)
    torch.testing.assert_close(bias_BHTS[0, 1, 1], -torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0]) / 256)


def test_one_fixed_slope() -> None:
    positions = AlibiConfig(slope=1.0).build(Dims(width=6, heads=2, layers=1, context=5, vocabulary=7))
    assert positions.bias(torch.tensor([[3]]), 4)[0, :, 0].tolist() == [[-3, -2, -1, 0], [-3, -2, -1, 0]]


@pytest.mark.parametrize("mixer", ["average", "none"])
def test_mixers_without_scores_refuse_it(mixer: str) -> None:
    with refused(ConfigError, "bad-value", str(mixer)):
        ModelConfig.parse({"mixer": mixer, "positions": "alibi"})
