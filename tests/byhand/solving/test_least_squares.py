from __future__ import annotations

import numpy as np
import pytest

from glassformer.byhand.problem import worked_keys
from glassformer.byhand.solving.least_squares import fit, least_squares, made_up_logits, with_length

PUBLISHED = np.array(
    [[44.6093, 28.4705, 31.0986], [74.2993, 24.4711, -43.9832], [9.9978, -24.5389, -51.8660], [73.9117, -69.2530, 27.8533]]
)


def test_gives_the_published_queries_to_every_printed_digit():
    """The exercise: select the first, and the identity, by target logits of 100."""
    for place, row in enumerate(PUBLISHED):
        np.testing.assert_allclose(fit(worked_keys(), 100 * np.eye(4)[place], 1.0), row, rtol=0, atol=5.01e-5)


def test_gives_the_published_poor_average():
    """The exercise: target logits (3, 3, -2, -3) give weights near (.549, .446, .004, .001)."""
    found = least_squares(worked_keys(), np.array([0.5, 0.5, 0, 0]), 1.0, 1.0, np.array([3.0, 3, -2, -3]))
    np.testing.assert_allclose(found.own_weights, [0.549, 0.446, 0.004, 0.001], rtol=0, atol=5e-4)


def test_made_up_logits():
    np.testing.assert_array_equal(made_up_logits(np.array([0, 0.5, 0.5])), [0, 100, 100])
    np.testing.assert_allclose(made_up_logits(np.array([0.25, 0.75, 0])), [np.log(0.25), np.log(0.75), np.log(1e-6)])


def test_scale_and_length():
    keys, logits = worked_keys(), np.array([1.0, 2, 3, 4])
    np.testing.assert_allclose(fit(keys, logits, 0.5), 2 * fit(keys, logits, 1.0), rtol=1e-12)
    assert np.linalg.norm(with_length(np.array([3.0, 4.0]), 7.0)) == pytest.approx(7)
    assert not with_length(np.zeros(2), 7.0).any()
    found = least_squares(keys, np.array([1.0, 0, 0, 0]), 1.0, 10.0)
    assert np.linalg.norm(found.rescaled) == pytest.approx(10)
    assert found.kl == pytest.approx(-np.log(found.weights[0]), rel=1e-9)
    assert found.own_kl == pytest.approx(-np.log1p(-found.own_weights[1:].sum()), rel=1e-6, abs=0)
    assert set(found.to_dict()) == {"logits", "query", "own_weights", "own_kl", "rescaled_query", "weights", "kl"}


def test_a_query_of_rounding_is_zero():
    assert not fit(np.array([[0.0, 0], [1, 1], [-1, -1]]), np.array([100.0, 0, 0]), 1.0).any()
    assert not fit(np.zeros((2, 2)), np.array([1.0, 0]), 1.0).any()
