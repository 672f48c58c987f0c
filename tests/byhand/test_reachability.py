"""What any query can reach, and the certificate where none can."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.byhand.reachability import FixedProportion, Mixture, reach
from glassformer.byhand.softmax import weights_of


def _goal(n: int, *members: int) -> np.ndarray:
    goal = np.zeros(n)
    goal[list(members)] = 1.0 / len(members)
    return goal


def test_orthonormal_keys_can_do_everything():
    for members in ((0,), (0, 3), (0, 1, 2)):
        found = reach(np.eye(4), _goal(4, *members), 1.0)
        assert (found.reachable, found.exact, found.best_kl) == (True, True, 0)
        assert found.face == list(members)
        assert not found.attained
        assert found.margin is not None


def test_the_average_of_all_needs_no_query():
    found = reach(np.random.default_rng(0).normal(size=(5, 2)), _goal(5, *range(5)), 1.0)
    assert (found.reachable, found.attained, found.best_kl) == (True, True, 0)
    assert not found.start.any()


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_weights_on_all_keys_are_attained_or_not(scale):
    keys, goal = np.array([[0.0], [1], [2]]), np.array([1, 2, 4]) / 7  # a geometric series: q = log 2 / scale
    found = reach(keys, goal, scale)
    assert found.reachable
    assert found.attained
    assert found.start[0] == pytest.approx(np.log(2) / scale, abs=1e-12)
    found = reach(keys, np.array([0.25, 0.5, 0.25]), scale)
    assert found.reachable is False
    assert isinstance(found.certificate, FixedProportion)
    np.testing.assert_allclose(found.best_weights, [1 / 3] * 3, atol=1e-9)


def test_a_key_in_the_hull_and_the_smallest_face_that_holds_it():
    """Key 1 lies between keys 2 and 3 on an edge; keys 4 and 5 can still be ignored."""
    keys = np.array([[0.0, 0], [1, 0], [-3, 0], [0, 2], [1, 1]])
    found = reach(keys, _goal(5, 0), 1.0)
    assert found.reachable is False
    assert found.exact
    assert found.face == [0, 1, 2]
    assert isinstance(found.certificate, Mixture)
    assert found.best_weights[0] == pytest.approx(found.certificate.largest_weight(), abs=1e-9), "the bound is met on the face"
    np.testing.assert_array_equal(found.best_weights[3:], 0)
    assert found.best_kl == pytest.approx(-np.log(found.best_weights[0]), rel=1e-9)
    assert found.margin is not None
    np.testing.assert_allclose(found.margin.direction, [0, -1], atol=1e-12)


def test_the_limit_is_approached_along_start_plus_direction():
    keys = np.array([[0.0, 0], [1, 0], [-3, 0], [0, 2], [1, 1]])
    for goal in (_goal(5, 0), np.array([0, 0, 0.2, 0.8, 0]), _goal(5, 3, 4)):
        found = reach(keys, goal, 1.0)
        assert found.margin is not None
        weights = weights_of(found.start + 200 / found.margin.low * found.margin.direction, keys)
        np.testing.assert_allclose(weights, found.best_weights, atol=1e-9)


def test_faces_within_faces():
    """Averaging opposite corners of a square drags in the centre, then the other corners, then everything on the plane."""
    keys = np.array([[1.0, 1, 0], [-1, -1, 0], [0, 0, 0], [1, -1, 0], [-1, 1, 0], [0, 0, -1]])
    found = reach(keys, _goal(6, 0, 1), 1.0)
    assert found.reachable is False
    assert found.face == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(found.best_weights, [0.2] * 5 + [0], atol=1e-9)


@pytest.mark.parametrize(("keys", "goal"), [([[1.0, 2], [1, 2]], [1.0, 0]), ([[0.0], [0], [0]], [0.5, 0.5, 0])])
def test_equal_keys(keys, goal):
    found = reach(np.array(keys), np.array(goal), 1.0)
    assert found.reachable is False
    assert found.exact
    np.testing.assert_allclose(found.best_weights, 1 / len(keys), atol=1e-12)


def test_equal_keys_may_share():
    found = reach(np.array([[1.0, 0], [1, 0], [0, 1]]), np.array([0.5, 0.5, 0]), 1.0)
    assert found.reachable
    assert found.exact
    found = reach(np.array([[1.0, 0], [1, 0], [0, 1]]), np.array([0.6, 0.4, 0]), 1.0)
    assert found.reachable is False
    assert isinstance(found.certificate, FixedProportion)


def test_rounding_is_called_rounding():
    """Keys on a line up to rounding: exact arithmetic would call the middle one a corner. It is not, and we say 'rounded'."""
    rng = np.random.default_rng(3)
    keys = np.outer(rng.normal(size=7), rng.normal(size=5)) + rng.normal(size=5)
    middle = int(np.argsort(keys[:, 0])[3])
    found = reach(keys, _goal(7, middle), 1.0)
    assert found.reachable is False
    assert found.certificate is not None
    assert not found.certificate.exact
    assert found.certificate.holds(keys, _goal(7, middle))


def test_large_problems_are_checked_in_float64_and_say_so():
    rng = np.random.default_rng(5)
    keys = rng.normal(size=(160, 40))
    goal = _goal(160, 0)
    found = reach(keys, goal, 1.0)
    assert found.reachable
    assert not found.exact
    keys[0] = keys[1:].mean(axis=0)
    found = reach(keys, goal, 1.0)
    assert found.reachable is False
    assert found.certificate is not None
    assert not found.certificate.exact


def test_what_fails_its_check_is_not_claimed(monkeypatch):
    monkeypatch.setattr(Mixture, "holds", lambda *_: False)
    found = reach(np.array([[0.0], [1], [-1]]), _goal(3, 0), 1.0)
    assert found.reachable is None
    assert found.certificate is None


def test_without_whole_numbers_the_verdict_is_the_same_up_to_rounding(monkeypatch):
    monkeypatch.setattr("glassformer.byhand.reachability.separate", lambda *_: None)
    rng = np.random.default_rng(0)
    keys = np.array([[0.0, 0], [1, 0], [-3, 0], [0, 2], [1, 1]])
    for goal, reachable in (
        (_goal(5, 0), False),
        (_goal(5, 3, 4), True),
        (_goal(5, 2), True),
        (rng.dirichlet(np.ones(5)), False),
    ):
        found = reach(keys, goal, 1.0)
        assert found.reachable is reachable
        assert found.certificate is None or found.certificate.holds(keys, goal)
        assert found.exact is False or found.certificate.exact


def test_of_several_certificates_the_shortest_is_shown():
    """Keys 1, 2, 4 lie on a line; key 5 depends on 1, 2 and 3: both spoil these weights, the first is easier to check."""
    keys = np.array([[0.0, 0], [1, 0], [0, 1], [2, 0], [3, 5]])
    found = reach(keys, np.array([0.1, 0.3, 0.2, 0.15, 0.25]), 1.0)
    assert isinstance(found.certificate, FixedProportion)
    assert set(found.certificate.coefficients) == {0, 1, 3}


def test_no_certificate_that_only_describes_rounding():
    """Exactly, keys 1 to 3 span the plane, and key 4 is 1e7 of them; to any eye they lie on a line, with key 4 on it."""
    keys = np.array([[0.0, 0], [1, 0], [2, 1e-18], [1, 1e-11]])
    found = reach(keys, _goal(4, 0, 1, 2), 1.0)
    assert found.reachable is False
    assert isinstance(found.certificate, Mixture)
    assert not found.certificate.exact
    assert max(abs(float(c)) for c in found.certificate.members.values()) < 10
