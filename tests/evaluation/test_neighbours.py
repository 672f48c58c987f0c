"""Blocks of one text: few slow waves, and a variance by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.evaluation.neighbours import block_variance, slow_waves, waves


def test_waves_are_few_orthogonal_and_blind_to_a_constant():
    for blocks in (2, 10, 110, 1000):
        basis = slow_waves(blocks)
        assert basis.shape == (blocks, waves(blocks))
        np.testing.assert_allclose(basis.T @ basis, np.eye(waves(blocks)), atol=1e-12)
        np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-12)
    assert [waves(blocks) for blocks in (2, 10, 110, 1000)] == [1, 1, 6, 25]


def test_two_blocks_by_hand():
    # one wave along two blocks: (cos(pi/4), cos(3 pi/4)) = (1, -1) / sqrt 2, so 2 * ((a - b) / sqrt 2)^2 = (a - b)^2
    assert float(block_variance(np.array([0.25, -0.25]))) == pytest.approx(0.25)
    assert math.isclose(float(block_variance(np.array([1.0, 3.0]))), 4.0)
