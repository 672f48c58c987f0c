"""Rounds in turns, ratios within rounds, and the work that the machine's rates are made from."""

from __future__ import annotations

import time

import pytest
import torch

from glassformer.benchmark import measure as measuring
from glassformer.benchmark.measure import (
    describe,
    matrix_program,
    measure,
    memory_program,
    ratio,
    spread,
    synchronize,
    timed,
)
from glassformer.foundation.runtime import Runtime

CPU = torch.device("cpu")
RUNTIME = Runtime(device=CPU, precision="float32", threads=1)


def test_every_program_runs_once_in_every_round_in_turns():
    order = []

    def meter(name: str):
        return lambda: order.append(name) or float(len(order))

    rates = measure({"a": meter("a"), "b": meter("b")}, rounds=3)
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert rates == {"a": [1.0, 3.0, 5.0], "b": [2.0, 4.0, 6.0]}


def test_a_rate_is_amount_by_seconds(monkeypatch):
    clock = iter([10.0, 14.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    assert timed(lambda: 12.0, CPU)() == pytest.approx(3.0)
    synchronize(CPU)


def test_ratios_are_taken_within_rounds():
    """The machine is half as fast in the second round; the ratio does not notice."""
    rates = {"ours": [30.0, 15.0, 33.0], "other": [10.0, 5.0, 10.0]}
    assert ratio(rates, "ours", "other") == {"value": 3.0, "low": 3.0, "high": pytest.approx(3.3), "n": 3}


def test_the_spread_is_median_lowest_and_highest():
    assert spread([5.0, 1.0, 4.0, 3.0]) == {"value": 3.5, "low": 1.0, "high": 5.0, "n": 4}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(measuring, "MATRIX_SIZE", {"cpu": 32})
    monkeypatch.setattr(measuring, "MATRIX_REPEATS", {"cpu": 3})
    monkeypatch.setattr(measuring, "MEMORY_BYTES", {"cpu": 4096})


def test_amounts_of_work():
    assert matrix_program(CPU, "float32")() == 3 * 2 * 32**3
    assert memory_program(CPU)() == 4096


def test_the_machine_is_described():
    described = describe(RUNTIME)
    assert described["threads"] == 1
    assert described["precision"] == "float32"
    assert described["torch"] == torch.__version__
