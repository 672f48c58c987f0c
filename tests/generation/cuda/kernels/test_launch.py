"""Launching kernels of a step: the carve-out is told once for each function, and never in the way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from glassformer.generation.cuda.kernels import launch


class Kernel:
    """Stands for a kernel of Triton's: remembers how it was launched."""

    def __init__(self, function: object) -> None:
        self.function, self.launches = function, []

    def __getitem__(self, grid):
        def launch(*arguments, **options):
            self.launches.append((grid, arguments, options))
            return SimpleNamespace(function=self.function)

        return launch


@pytest.fixture
def carveouts(monkeypatch):
    told = []
    monkeypatch.setattr(launch, "prefer_carveout", told.append)
    return told


@pytest.mark.parametrize(("able", "function", "expected"), [(True, 7, [7]), (True, None, []), (False, 7, [])])
def test_a_link_is_launched_as_told_and_its_memory_divided(monkeypatch, carveouts, able, function, expected) -> None:
    pdl_options = {"PDL": True, "launch_pdl": True} if able else {"PDL": False}
    monkeypatch.setattr(launch, "pdl_options", lambda: pdl_options)
    kernel = Kernel(function)
    launch.launch(kernel, (2, 3), "x", num_warps=4)
    assert kernel.launches == [((2, 3), ("x",), {"num_warps": 4, **pdl_options})]
    assert carveouts == expected


@pytest.mark.parametrize(("answer", "taken"), [(0, True), (1, False)])
def test_the_driver_is_told_once(monkeypatch, answer, taken) -> None:
    told = []
    driver = SimpleNamespace(cuFuncSetAttribute=lambda *words: told.append(words) or answer)
    monkeypatch.setattr(launch.ctypes, "CDLL", lambda name: driver)
    launch.prefer_carveout.cache_clear()
    assert [launch.prefer_carveout(12), launch.prefer_carveout(12)] == [taken, taken]
    assert [(function.value, *words) for function, *words in told] == [(12, 9, launch.SHARED_PERCENT)]
    launch.prefer_carveout.cache_clear()


def test_without_a_driver_nothing_happens(monkeypatch) -> None:
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(launch.ctypes, "CDLL", missing)
    launch.prefer_carveout.cache_clear()
    assert launch.prefer_carveout(12) is False
    launch.prefer_carveout.cache_clear()


ON_THE_GPU = """
import ctypes
from glassformer.generation.cuda.kernels import launch, residual
ids, table = torch.zeros(3, dtype=torch.long, device="cuda"), torch.ones(4, 48, device="cuda", dtype=torch.bfloat16)
residual.embed(residual.ResidualStream.empty(3, table), ids, table)
(compiled,) = residual._embed.device_caches[0][0].values()
value = ctypes.c_int()
wanted = launch.PREFERRED_SHARED_MEMORY_CARVEOUT
assert ctypes.CDLL("libcuda.so.1").cuFuncGetAttribute(ctypes.byref(value), wanted, ctypes.c_void_p(compiled.function)) == 0
assert value.value == (launch.SHARED_PERCENT if launch.pdl_options()["PDL"] else -1)
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_driver_has_heard(run_with_kernels) -> None:
    assert run_with_kernels(ON_THE_GPU) == ""
