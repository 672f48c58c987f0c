"""The sink takes its share of the weights."""

from __future__ import annotations

import math

import torch

from glassformer.model.dims import Dims
from glassformer.model.normalisers.sink import SinkConfig

DIMS = Dims(width=12, heads=2, layers=1, context=7, vocabulary=11)


def test_off_by_one_by_hand() -> None:
    """Scores 0 and ln 2: weights 1/(1+1+2) and 2/(1+1+2)."""
    pattern = SinkConfig(learned=False).build(DIMS)(torch.tensor([0.0, math.log(2), 5.0]).expand(1, 2, 1, 3), None)
    torch.testing.assert_close(pattern[0, 0, 0, :2] * (4 + math.exp(5)), torch.tensor([1.0, 2.0]))
    masked = SinkConfig(learned=False).build(DIMS)(
        torch.tensor([0.0, math.log(2), 5.0]).expand(1, 2, 1, 3), torch.tensor([True, True, False])
    )
    torch.testing.assert_close(masked[0, 0, 0], torch.tensor([0.25, 0.5, 0.0]))


def test_a_sink_per_head_and_nothing_to_see() -> None:
    sink = SinkConfig().build(DIMS)
    with torch.no_grad():
        sink.sink_H.copy_(torch.tensor([0.0, math.log(3)]))
    pattern = sink(torch.zeros(1, 2, 2, 1), torch.tensor([[True], [False]]))
    torch.testing.assert_close(pattern[0, :, 0, 0], torch.tensor([0.5, 0.25]))
    assert not pattern[0, :, 1].any()
