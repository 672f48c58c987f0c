"""T5's bias: buckets by hand, one table for all layers, both directions in an encoder."""

from __future__ import annotations

import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.positions.t5 import T5Config, bucket_of


def test_buckets_of_a_decoder() -> None:
    """8 buckets up to 16: four single distances, then [4, 5], [6, 7], [8-11] and the rest (factors of sqrt 2)."""
    distance = torch.tensor([-3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 99])
    buckets = bucket_of(distance, buckets=8, reach=16, causal=True)
    assert buckets.tolist() == [0, 0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7, 7]


def test_buckets_of_an_encoder_tell_before_from_after() -> None:
    distance = torch.tensor([-9, -2, -1, 0, 1, 2, 9])
    buckets = bucket_of(distance, buckets=8, reach=16, causal=False)
    assert buckets.tolist() == [7, 6, 5, 0, 1, 2, 3]


def test_bias_is_the_table_at_the_bucket() -> None:
    dims = Dims(width=6, heads=2, layers=1, context=5, vocabulary=7)
    positions = T5Config(buckets=4, reach=3).build(dims)
    bias_BHTS = positions.bias(torch.tensor([[3]]), 4)
    assert bias_BHTS.shape == (1, 2, 1, 4)
    torch.testing.assert_close(bias_BHTS[0, :, 0].T, positions.table.weight[[3, 2, 1, 0]], rtol=0, atol=0)


def test_reach_within_the_single_distances_is_refused() -> None:
    with refused(ConfigError, "bad-value", "model.positions.reach=16"):
        ModelConfig.parse({"positions": {"kind": "t5", "reach": 16}})
