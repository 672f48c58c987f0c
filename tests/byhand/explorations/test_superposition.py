from __future__ import annotations

import numpy as np
import pytest

from glassformer.byhand.explorations.superposition import oblique_extractor, orthogonal_extractor, subspaces, superposition


def test_orthogonal_subspaces_give_the_value_back():
    """S1.2: M = 2 A A^T takes v_a out of (v_a + v_b) / 2."""
    rng = np.random.default_rng(0)
    a, b = subspaces(rng, 11, 3, 90.0)
    v_a, v_b = a @ rng.normal(size=3), b @ rng.normal(size=3)
    np.testing.assert_allclose(a.T @ b, 0, atol=1e-14)
    np.testing.assert_allclose(orthogonal_extractor(a) @ ((v_a + v_b) / 2), v_a, atol=1e-13)


@pytest.mark.parametrize("degrees", [80.0, 45.0, 10.0])
def test_the_error_is_the_cosine(degrees):
    rng = np.random.default_rng(1)
    a, b = subspaces(rng, 9, 4, degrees)
    np.testing.assert_allclose(a.T @ a, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(b.T @ b, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(np.linalg.svd(a.T @ b)[1], np.cos(np.radians(degrees)), atol=1e-13)
    v_a, v_b = a @ rng.normal(size=4), b @ rng.normal(size=4)
    v_b /= np.linalg.norm(v_b)
    error = np.linalg.norm(orthogonal_extractor(a) @ ((v_a + v_b) / 2) - v_a)
    assert error == pytest.approx(np.cos(np.radians(degrees)), abs=1e-12)
    np.testing.assert_allclose(oblique_extractor(a, b) @ ((v_a + v_b) / 2), v_a, atol=1e-11)


def test_the_whole_sweep():
    numbers = superposition(d=12, m=3, n=5, draws=40, noise=0.05, seed=2).numbers
    np.testing.assert_allclose(numbers["error"]["2 A A^T"], numbers["formula"], atol=1e-9)
    assert max(numbers["error"]["oblique"]) < 1e-9
    assert numbers["error_with_noise"]["oblique"][-1] > 5 * numbers["error_with_noise"]["oblique"][0]


def test_what_attention_leaks_is_in_the_error():
    numbers = superposition(d=12, m=3, n=5, beta=2.0, draws=40, noise=0.0).numbers
    assert numbers["error"]["2 A A^T"][0] > 0.05
