"""Documents and blocks: how much another choice of them would move a mean."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.study.inference.document_variance import units_of


def test_a_document_without_tokens_is_left_out_and_weights_sum_to_one():
    d, units = units_of(np.arange(6.0).reshape(2, 3), [3, 0, 1], blocks=False)
    np.testing.assert_array_equal(d, [[0.0, 2.0], [3.0, 5.0]])
    np.testing.assert_allclose(units.weights, [0.75, 0.25])
    assert units.effective == pytest.approx(1 / (0.75**2 + 0.25**2))


def test_the_jackknife_is_that_of_the_means_without_each_document():
    values, tokens = np.array([1.0, 4.0, 2.0, 7.0]), np.array([3.0, 1.0, 5.0, 2.0])
    _, units = units_of(values[None], tokens, blocks=False)
    whole = values @ tokens / tokens.sum()
    without = [np.delete(values, i) @ np.delete(tokens, i) / np.delete(tokens, i).sum() for i in range(4)]
    expected = 3 / 4 * sum((one - whole) ** 2 for one in without)
    assert float(units.variance(values - whole)) == pytest.approx(expected)
