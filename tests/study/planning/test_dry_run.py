"""What a study would take: runs, time, power; nothing is trained and nothing written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from glassformer.study.planning.dry_run import ClusterEstimate, StudyEstimate, estimate_cluster, estimate_study
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.planned_study import plan_studies


def estimate(source: Any, vary: Any = None, **settings: Any) -> StudyEstimate:
    return estimate_study(plan_studies(source, vary, settings=settings)[0], jobs=3)


def test_runs_time_and_power(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = estimate(tiny, {"model.layers": [2, 3]}, seeds=6)
    assert list(found.parameters) == ["base", "model.layers=2", "model.layers=3"]
    assert found.runs == 18
    assert found.total == sum(found.seconds.values()) * 6
    assert found.to_dict()["seconds"] == found.total / 3
    assert "3 variants with 6 seeds: up to 18 runs" in str(found)
    assert "Power: with" in str(found)
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_matched_here_too(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = estimate(tiny, {"model.positions": ["none"]}, seeds=6, match="parameters")
    base, own = found.parameters.values()
    assert own == pytest.approx(base, rel=0.01)
    assert "model.feedforward.inner is set to" in str(found)


def test_runs_that_tune_are_counted(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    tune = {"grid": {"training.lr": [0.1, 0.2, 0.3]}, "seeds": 4}
    found = estimate(tiny, {"model.layers": [2]}, seeds=6, tune=tune)
    assert (found.tuning_runs, found.runs) == (24, 36)
    assert found.total == pytest.approx(sum(found.seconds.values()) * (6 + 12))
    assert "up to 36 runs (24 of them to tune)" in str(found)


def test_a_search_without_changes_compares_nothing(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = StudyPlan.parse({"base": tiny, "tune": {"grid": {"training.lr": [0.1, 0.2]}, "seeds": 4}, "seeds": 6})
    found = estimate(plan)
    assert "1 variant with 6 seeds: up to 14 runs (8 of them to tune)" in str(found)
    assert "Nothing is compared" in str(found)


def test_a_longer_setting_of_a_grid_takes_longer(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = StudyPlan.parse({"base": tiny, "tune": {"grid": {"training.steps": [6, 18]}, "seeds": 4}, "seeds": 6})
    found = estimate(plan)
    once = found.seconds["base"]  # of 6 steps; each of the six runs may turn out to have 18
    assert found.total == pytest.approx(4 * (once + 3 * once) + 6 * 3 * once)


class TestOnACluster:
    """GPU hours from FLOPs: what they grow with, and when it would end."""

    @pytest.fixture
    def found(self, tiny, tmp_path, monkeypatch) -> ClusterEstimate:
        monkeypatch.chdir(tmp_path)
        changes = [{"name": f"{layers} layers", "set": {"model.layers": layers}} for layers in (2, 3)]
        sizes = {"small": {"training.lr": 0.1}, "large": {"training.lr": 0.05, "training.steps": 100_000}}
        planned = plan_studies({"base": tiny, "changes": changes, "sizes": sizes, "seeds": 6})
        return estimate_cluster(planned, "h100", gpus_per_trial=1.0, jobs=4)

    def test_hours_add_up(self, found):
        document = found.to_dict()
        assert (document["runs"], list(document["studies"])) == (36, ["small", "large"])
        low, high = document["gpu_hours"].values()
        assert 0.0 < low < high
        growth = document["growth"]
        assert growth["sizes and texts"][-1][1] == pytest.approx(growth["changes"][-1][1]) == pytest.approx(high)
        by_seeds = dict(growth["seeds"])
        assert by_seeds["12"] == pytest.approx(2 * by_seeds["6"]) == pytest.approx(2 * high)

    def test_the_end_is_the_last_run_at_worst(self, found):
        hours, ends = found.ends(4)
        assert abs(ends - found.begins - timedelta(hours=hours)) < timedelta(seconds=1)
        assert hours == pytest.approx(found.total[1] / 4)
        assert found.ends(1000)[0] > found.total[1] / 1000  # no run is split
        assert list(found.to_dict()["ends"]) == ["4"]

    def test_shares_and_several_gpus(self, found):
        low, high = found.total
        assert replace(found, gpus_per_trial=0.25).total == pytest.approx((0.25 * low, high))
        assert replace(found, gpus_per_trial=2.0).total == pytest.approx((2 * low, 2 * high))

    def test_the_picture_has_a_panel_for_each(self, found):
        assert [axes.get_title(loc="left") for axes in found.figure().axes] == [
            "with seeds",
            "with sizes and texts",
            "with changes",
        ]
