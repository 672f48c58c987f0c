"""Blocks of one text: few slow waves, and a variance by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.evaluation.long_run_variance import block_variance, cosine_basis, num_cosines


def test_waves_are_few_orthogonal_and_blind_to_a_constant():
    for blocks in (2, 10, 110, 1000):
        basis = cosine_basis(blocks)
        assert basis.shape == (blocks, num_cosines(blocks))
        np.testing.assert_allclose(basis.T @ basis, np.eye(num_cosines(blocks)), atol=1e-12)
        np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-12)
    assert [num_cosines(blocks) for blocks in (2, 10, 110, 1000)] == [1, 1, 6, 25]


def test_two_blocks_by_hand():
    # one wave along two blocks: (cos(pi/4), cos(3 pi/4)) = (1, -1) / sqrt 2, so 2 * ((a - b) / sqrt 2)^2 = (a - b)^2
    assert float(block_variance(np.array([0.25, -0.25]))) == pytest.approx(0.25)
    assert math.isclose(float(block_variance(np.array([1.0, 3.0]))), 4.0)
