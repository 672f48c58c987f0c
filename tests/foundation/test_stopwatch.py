"""Seconds by phase: nested phases stand still, and everything adds up."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from glassformer.foundation.stopwatch import Stopwatch, process_age


def test_nested_phases_do_not_count_twice() -> None:
    clock = Stopwatch()
    began = time.perf_counter()
    with clock.phase("steps"):
        time.sleep(0.02)
        with clock.phase("compile"):
            time.sleep(0.2)
    whole = time.perf_counter() - began
    seconds = clock.to_dict()["seconds"]
    assert seconds["compile"] >= 0.2
    assert 0.02 <= seconds["steps"] <= whole - seconds["compile"] + 0.002  # each is rounded to a thousandth


def test_phases_and_the_rest_add_up_also_after_an_error() -> None:
    clock = Stopwatch()
    with pytest.raises(ZeroDivisionError), clock.phase("data"):
        raise ZeroDivisionError
    time.sleep(0.02)
    found = clock.to_dict()
    assert list(found["seconds"]) == ["data", "other"]
    assert found["seconds"]["other"] >= 0.02
    for kind in ("seconds", "cpu"):
        assert sum(found[kind].values()) == pytest.approx(found["whole"][kind], abs=1e-3)


def test_what_came_before_is_imports() -> None:
    program = "import time; time.sleep(0.3); from glassformer.foundation.stopwatch import Stopwatch as S; "
    program += "print(S(from_process_start=True).to_dict()['seconds']['imports'])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(answer.stdout) >= (0.3 if sys.platform == "linux" else 0.0)
    assert process_age() > 0
