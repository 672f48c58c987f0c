"""The amounts of work that the machine's rates are made from."""

from __future__ import annotations

import pytest
import torch

from glassformer.benchmark import machine
from glassformer.benchmark.machine import describe, matrix_program, measure_machine, memory_program
from glassformer.foundation.runtime import Runtime

CPU = torch.device("cpu")
RUNTIME = Runtime(device=CPU, precision="float32", threads=1)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(machine, "MATRIX_SIZE", {"cpu": 32})
    monkeypatch.setattr(machine, "MATRIX_REPEATS", {"cpu": 3})
    monkeypatch.setattr(machine, "MEMORY_BYTES", {"cpu": 4096})


def test_amounts_of_work():
    assert matrix_program(CPU, torch.float32)() == 3 * 2 * 32**3
    assert memory_program(CPU)() == 4096


def test_both_rates_are_measured_in_every_round():
    rates = measure_machine(RUNTIME, torch.float32, rounds=2)
    assert {name: len(values) for name, values in rates.items()} == {"matrix_flops": 2, "memory_bytes": 2}
    assert min(rates["matrix_flops"] + rates["memory_bytes"]) > 0


def test_the_machine_is_described():
    described = describe(RUNTIME)
    assert described["threads"] == 1
    assert described["precision"] == "float32"
    assert described["torch"] == torch.__version__
