"""Launching links of a chain: the wish for a division of memory is said once for each function, and never in the way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from glassformer.generation.cuda.kernels import launch as chain


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
def wishes(monkeypatch):
    said = []
    monkeypatch.setattr(chain, "divide_memory", said.append)
    return said


@pytest.mark.parametrize(("able", "function", "expected"), [(True, 7, [7]), (True, None, []), (False, 7, [])])
def test_a_link_is_launched_as_told_and_its_memory_divided(monkeypatch, wishes, able, function, expected) -> None:
    link = {"CHAINED": True, "launch_pdl": True} if able else {"CHAINED": False}
    monkeypatch.setattr(chain, "link", lambda: link)
    kernel = Kernel(function)
    chain.launch(kernel, (2, 3), "x", num_warps=4)
    assert kernel.launches == [((2, 3), ("x",), {"num_warps": 4, **link})]
    assert wishes == expected


@pytest.mark.parametrize(("answer", "taken"), [(0, True), (1, False)])
def test_the_driver_is_told_once(monkeypatch, answer, taken) -> None:
    told = []
    driver = SimpleNamespace(cuFuncSetAttribute=lambda *words: told.append(words) or answer)
    monkeypatch.setattr(chain.ctypes, "CDLL", lambda name: driver)
    chain.divide_memory.cache_clear()
    assert [chain.divide_memory(12), chain.divide_memory(12)] == [taken, taken]
    assert [(function.value, *words) for function, *words in told] == [(12, 9, chain.SHARED_PERCENT)]
    chain.divide_memory.cache_clear()


def test_without_a_driver_nothing_happens(monkeypatch) -> None:
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(chain.ctypes, "CDLL", missing)
    chain.divide_memory.cache_clear()
    assert chain.divide_memory(12) is False
    chain.divide_memory.cache_clear()


ON_THE_GPU = """
import ctypes
from glassformer.generation.cuda.kernels import launch as chain, residual as stream
ids, table = torch.zeros(3, dtype=torch.long, device="cuda"), torch.ones(4, 48, device="cuda", dtype=torch.bfloat16)
stream.embed(stream.Stream.empty(3, table), ids, table)
(compiled,) = stream._embed.device_caches[0][0].values()
value = ctypes.c_int()
wanted = chain.PREFERRED_SHARED_MEMORY_CARVEOUT
assert ctypes.CDLL("libcuda.so.1").cuFuncGetAttribute(ctypes.byref(value), wanted, ctypes.c_void_p(compiled.function)) == 0
assert value.value == (chain.SHARED_PERCENT if chain.link()["CHAINED"] else -1)
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_driver_has_heard(run_with_kernels) -> None:
    assert run_with_kernels(ON_THE_GPU) == ""
