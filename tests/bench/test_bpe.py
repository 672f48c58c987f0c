"""The benchmark runs, finds the merges equal, and its ratio is ours to the fastest other way."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType

import pytest


def test_it_measures_a_small_text(bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text.txt"
    file.write_text("the lower the river, the slower the rower rows\n" * 20, encoding="utf-8")
    result = bench.measure(file, vocab=270, repeats=2)
    bench.print_result(result)
    assert result["same_merges"]
    assert "the same merges: yes" in capsys.readouterr().out
    for name in bench.GATES:
        assert all(len(times) == 2 for times in result[name]["seconds"].values())


def test_the_ratio_is_ours_to_the_fastest_other(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clock by hand. Turn 1 goes by name: fast 2 s, ours 3 s, slow 9 s. Turn 2 backwards: slow 8 s, ours 5 s, fast 2 s."""
    ends = itertools.accumulate([0, 2, 0, 3, 0, 9, 0, 8, 0, 5, 0, 2])
    monkeypatch.setattr(bench.time, "perf_counter", lambda: float(next(ends)))
    result = bench.in_turns({"ours": lambda: None, "slow": lambda: None, "fast": lambda: None}, repeats=2)
    assert result["seconds"] == {"ours": [3, 5], "slow": [9, 8], "fast": [2, 2]}
    assert result["ratio"] == {"median": 2.0, "low": 1.5, "high": 2.5}
