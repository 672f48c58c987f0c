"""The next token: targets are the inputs one place on, every one counts."""

from __future__ import annotations

import numpy as np
import torch
from glassformer.data.objectives.next_token import NextTokenConfig


def test_by_hand() -> None:
    batches = NextTokenConfig().batches(np.arange(4, dtype=np.uint8), context=3, batch_size=2, seed=0)
    batch = batches.batch(0)
    assert batch.inputs_BT.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert batch.targets_BT.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_nothing_is_ignored() -> None:
    tokens = np.random.default_rng(5).integers(0, 11, 300)
    batch = NextTokenConfig().batches(tokens, context=7, batch_size=5, seed=3).batch(4)
    assert (batch.targets_BT >= 0).all()
    assert torch.equal(batch.inputs_BT[:, 1:], batch.targets_BT[:, :-1])
