"""Objectives: every one gives batches that depend on seed and step alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from glassformer.data.objectives.base import OBJECTIVES, ObjectiveConfig

TOKENS = np.random.default_rng(5).integers(0, 11, 300).astype(np.uint16)


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_every_objective(name: str) -> None:
    config = OBJECTIVES.get(name)()
    assert isinstance(config, ObjectiveConfig)
    first, again = (config.batches(TOKENS, context=7, batch_size=5, seed=3) for _ in range(2))
    assert first.steps_per_epoch > 0
    first.batch(2)
    for step in (0, 9):
        batch, same = first.batch(step), again.batch(step)
        assert batch.inputs_BT.shape == batch.targets_BT.shape
        assert len(batch.inputs_BT) == 5
        assert batch.inputs_BT.shape[1] <= 7
        assert torch.equal(batch.inputs_BT, same.inputs_BT)
        assert torch.equal(batch.targets_BT, same.targets_BT)
        assert ((batch.targets_BT >= 0) | (batch.targets_BT == -100)).all()
