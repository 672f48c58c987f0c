"""The luck in the choice of a tuned setting."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.study.planning.power import MORE_TUNING, seeds_needed
from glassformer.study.statistics.selection_variance import affects_cost, grid_edge_notes, makes_another_model, tuning_variance
from glassformer.study.statistics.two_way import two_way_effects


def test_a_choice_without_rivals_has_no_luck():
    clear = np.array([[1.0, 1.01], [9.0, 9.01], [8.0, 8.02]])
    assert tuning_variance(clear) == pytest.approx(0.0, abs=1e-9)
    assert tuning_variance(clear[:1]) == 0.0
    assert tuning_variance(np.ones((3, 2))) == 0.0


def test_a_close_race_has_and_its_sign_does_not_matter():
    close = np.array([[1.0, 1.4], [1.3, 1.5], [2.4, 2.0]])
    luck = tuning_variance(close)
    assert 0.0 < luck < close.mean(axis=1).var(ddof=1)
    assert tuning_variance(-close, lower_is_better=False) == pytest.approx(luck, rel=0.05)


def test_one_tuning_seed_needs_the_noise_from_elsewhere():
    single = np.array([[1.0], [1.1], [1.6]])
    assert tuning_variance(single) == 0.0
    assert tuning_variance(single, noise=0.04) > 0.0


def test_the_luck_of_tuning_is_lowered_by_tuning_seeds_alone():
    differences = 0.5 + 0.01 * np.random.default_rng(0).standard_normal((8, 40))
    plain = two_way_effects(differences)
    lucky = two_way_effects(differences, tuning_variance=0.04)
    assert lucky.variance == pytest.approx(plain.variance + 0.04)
    assert lucky.seed_variance == pytest.approx(plain.seed_variance)
    assert float(lucky.tuning_share) > 0.99
    assert float(plain.tuning_share) == 0.0
    assert seeds_needed(plain, 0.1).value is not None
    assert seeds_needed(lucky, 0.1).reason == MORE_TUNING


def test_a_choice_at_the_end_of_its_grid_is_told():
    points = [{"training.lr": rate, "training.epochs": epochs} for rate in (0.1, 0.2, 0.4) for epochs in (2, 5)]
    assert grid_edge_notes(points, 5) == ["training.lr=0.4 is the largest that was tried: a better one may lie above it."]
    assert grid_edge_notes(points, 0) == ["training.lr=0.1 is the smallest that was tried: a better one may lie below it."]
    assert grid_edge_notes(points, 2) == []
    assert grid_edge_notes([{"model.positions": kind} for kind in ("learned", "rotary", "none")], 0) == []


def test_which_settings_change_what_a_run_costs():
    assert not affects_cost({"training.lr": 0.1, "training.optimizer.layer_decay": 0.9, "training.schedule": "linear"})
    for key in ("training.steps", "training.batch_size", "model.width", "training.optimizer", "training.optimizer.kind"):
        assert affects_cost({"training.lr": 0.1, key: 1}), key


def test_what_makes_another_model_needs_a_check_of_its_own():
    assert not makes_another_model({"training.lr": 0.1, "training.batch_size": 8, "evaluation.patience": 2})
    for key in ("model.layers", "model.merge", "objective", "data.set", "training.precision"):
        assert makes_another_model({"training.lr": 0.1, key: 1}), key
