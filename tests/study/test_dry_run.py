"""What a study would take: runs, time, power; nothing is trained and nothing written."""

from __future__ import annotations

from glassformer.study.dry_run import foresee


def test_runs_time_and_power(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = foresee(tiny, {"model.layers": [2, 3]}, seeds=6, jobs=3)
    assert list(found.parameters) == ["base", "model.layers=2", "model.layers=3"]
    assert found.runs == 18
    assert found.total == sum(found.seconds.values()) * 6
    assert found.to_dict()["seconds"] == found.total / 3
    assert "3 variants with 6 seeds: up to 18 runs" in str(found)
    assert "standard deviations" in str(found)
    assert list(tmp_path.iterdir()) == []
