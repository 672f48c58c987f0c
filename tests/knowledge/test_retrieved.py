"""Retrieved or made up: scores that know give AUC 1, scores that do not give one half; thresholds hold on the other half."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.knowledge.retrieved import retrieved_or_made_up

KNOWN, NOBODY = [f"k{n}" for n in range(300)], [f"n{n}" for n in range(200)]


def test_a_score_that_knows_and_one_that_does_not():
    rng = np.random.default_rng(0)
    right = (rng.random(300) < 0.8).astype(float)
    known = {
        "noise": rng.normal(size=300),
        "read": np.full(300, 2.0) + rng.normal(size=300),
        "sure": 3 * right + rng.normal(size=300),
    }
    nowhere = {"noise": rng.normal(size=200), "read": rng.normal(size=200) - 2, "sure": rng.normal(size=200) + 1}
    found = retrieved_or_made_up(known, right, KNOWN, nowhere, NOBODY)
    area = {name: one["value"] for name, one in found["auc"].items()}
    assert area["noise"] == pytest.approx(0.5, abs=0.1)
    assert area["together"] > max(area["read"], area["sure"])
    assert found["abstention"]["nowhere_abstained"]["value"] > 0.9
    assert found["abstention"]["known_answered"]["value"] == pytest.approx(0.9, abs=0.07)
    assert sum(found["tested_on"].values()) < 500


def test_where_nothing_is_right_there_is_nothing_to_judge():
    scores = {"a": np.zeros(300)}
    assert retrieved_or_made_up(scores, np.zeros(300), KNOWN, {"a": np.zeros(200)}, NOBODY) is None
