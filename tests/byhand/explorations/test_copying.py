from __future__ import annotations

import numpy as np
import pytest

from glassformer.byhand.explorations.copying import copying


def test_the_promise_is_kept_and_not_empty():
    """S1.2, S2.6 a: the weight is at least 1 / (1 + (n-1) e^(-beta lead)), and the error falls at that rate."""
    numbers = copying(n=7, d=5, beta=15.0, seed=1).numbers
    betas, lead = np.array(numbers["beta"]), numbers["lead"]
    assert np.all(np.array(numbers["error"]) <= np.array(numbers["promised_error"]) + 1e-12)
    floor = 1 / (1 + 6 * np.exp(-betas * lead))
    assert np.all(np.array(numbers["weight"]) >= floor - 1e-12)
    assert numbers["weight"][0] == pytest.approx(1 / 7)
    fall = np.log(numbers["error"][-5] / numbers["error"][-1]) / (betas[-1] - betas[-5])
    assert fall == pytest.approx(lead, rel=0.05)


def test_the_widest_lead_is_wider():
    numbers = copying(n=9, d=6, seed=2).numbers
    assert numbers["widest_lead"] >= numbers["lead"] - 1e-12
    assert numbers["error_widest_lead"][-1] < numbers["error"][-1]


def test_the_named_beta_is_enough():
    numbers = copying(n=6, d=8, beta=400.0, seed=3).numbers
    enough = np.searchsorted(numbers["beta"], numbers["beta_for_99_percent"])
    assert numbers["weight"][enough] >= 0.99
