"""The benchmark: exponents of known powers, bytes of known tensors, every mixer measured beside its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.refusals import refused

from glassformer.benchmark.attention import _bytes, benchmark_attention, growth
from glassformer.foundation.errors import UsageError
from glassformer.model.slots import MIXERS


def test_exponent_of_a_power_is_that_power() -> None:
    lengths = [64, 128, 256, 512, 1024, 2048]
    found = growth(lengths, [3e-7 * n**1.7 for n in lengths])
    assert found["exponent"] == pytest.approx(1.7, abs=1e-12)
    assert found["error"] == pytest.approx(0.0, abs=1e-12)
    assert found["n"] == 3


def test_only_the_longer_half_counts_and_its_scatter_is_the_error() -> None:
    """Fixed costs make the short half flat. Three points, the middle one off the line, by hand."""
    lengths = [1, 10, 100, 1000, 10000]
    assert growth(lengths, [50.0, 50.0, 100.0, 1000.0, 10000.0])["exponent"] == pytest.approx(1.0)
    off = growth([1, 10, 100], [1.0, 10.0 * 10**0.3, 100.0])
    assert off["exponent"] == pytest.approx(1.0)
    # residuals in decades: -0.1, 0.2, -0.1; their squares add to 0.06, over 1 degree of freedom and a spread of 2
    assert off["error"] == pytest.approx((0.06 / 2) ** 0.5)


def test_too_little_to_fit() -> None:
    assert growth([64], [1.0])["error"] is None
    assert growth([64, 128], [1.0, 4.0])["exponent"] == pytest.approx(2.0)
    assert growth([64, 128, 256], [0.0, 0.0, 0.0])["exponent"] == 0.0


def test_bytes_are_those_alive_at_once() -> None:
    def step() -> None:
        first = torch.ones(1000)  # 4000 bytes
        second = first * 2  # and 4000 more
        del first
        third = second.repeat(3)  # 12000 beside 4000
        del second, third
        torch.ones(500)

    assert _bytes(step, torch.device("cpu")) == 16000


def test_views_cost_nothing() -> None:
    def step() -> None:
        kept = torch.ones(1000)
        views = [kept[i:] for i in range(5)]
        del kept, views

    assert _bytes(step, torch.device("cpu")) == 4000


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return benchmark_attention(lengths=(8, 16, 32), width=12, heads=3, repeats=1)


def test_every_mixer_and_example_is_measured_beside_its_formula(document: dict[str, Any]) -> None:
    costs = document["mixers"]
    assert document["skipped"] == []
    assert {cost["mixer"].partition("(")[0] for cost in costs} == set(MIXERS.names())
    assert len(costs) == sum(len(MIXERS.get(name).examples) for name in MIXERS.names())
    for cost in costs:
        assert min(cost["seconds"]) > 0
        assert min(cost["bytes"]) > 0
        assert set(cost) >= {"mixer", "lengths", "seconds", "bytes", "flops", "time", "memory", "formula"}
    assert any("fused=false" in cost["mixer"] for cost in costs)


def test_examples_that_do_not_fit_the_heads_are_left_out_with_a_sentence() -> None:
    """One example of grouped has three heads of keys: it cannot be measured with four heads of queries."""
    document = benchmark_attention(names=["grouped", "dot"], lengths=(8, 16), width=16, heads=4, repeats=1)
    names = [mixer["mixer"] for mixer in document["mixers"]]
    assert "grouped" in names
    assert "dot" in names
    assert not any("kv_heads=3" in name for name in names)
    (sentence,) = document["skipped"]
    assert sentence.startswith("grouped(kv_heads=3")
    assert "must divide model.heads=4" in sentence


def test_formula_is_that_of_both_passes_by_hand(document: dict[str, Any]) -> None:
    """Width 12, length 8: a projection 2 * 8 * 144 = 2304 FLOPs, a table times vectors 2 * 64 * 12 = 1536."""
    by_name = {mixer["mixer"]: mixer["flops"][0] for mixer in document["mixers"]}
    assert by_name["dot"] == 3 * (3 * 2304 + 2 * 1536)
    assert by_name["average"] == 3 * 2304 + 2 * 1536  # a fixed table has no gradient
    assert by_name["argmax"] == 3 * 3 * 2304 + 2 * 1536 + 1536
    assert by_name["none"] == 0


def test_formula_approaches_the_square_of_the_length() -> None:
    lengths = [2**k for k in range(10, 16)]
    projections, tables = 6 * 128**2, 4 * 128  # FLOPs of dot per place, and per pair of places
    formula = growth(lengths, [3 * (projections * n + tables * n * n) for n in lengths])
    assert 1.95 < formula["exponent"] < 2.0


def test_memory_of_the_definition_grows_as_the_square_and_of_the_kernel_as_the_length() -> None:
    sizes = {"lengths": (128, 256, 512, 1024), "width": 32, "heads": 2, "repeats": 1}
    fused, reference, *_ = benchmark_attention(names=["dot"], **sizes)["mixers"]
    assert reference["memory"]["exponent"] == pytest.approx(2.0, abs=0.1)
    assert fused["memory"]["exponent"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("wrong", [{"lengths": (16, 8)}, {"lengths": (0, 8)}, {"width": 10, "heads": 3}])
def test_wrong_sizes_are_refused(wrong: dict[str, object]) -> None:
    with refused(UsageError, "bad-lengths-or-heads"):
        benchmark_attention(**wrong)  # type: ignore[arg-type]
