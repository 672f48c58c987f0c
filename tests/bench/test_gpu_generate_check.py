"""The check of generation on a GPU, here on the CPU with a model of a few numbers: it passes, and it can fail."""

from __future__ import annotations

import pytest
import torch

from glassformer.benchmark.speed import Sizes

SIZES = Sizes(width=12, layers=2, heads=3, context=16, vocabulary=11)


@pytest.fixture(autouse=True)
def _as_it_was():
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)


def test_it_passes(bench, capsys):
    result = bench.run(SIZES, "cpu", rows=3, new=10, batches=(1, 2), rounds=1, bf16=False)
    bench.print_result(result)
    assert bench.verdict(result)
    assert "passed" in capsys.readouterr().out
    assert 0 < result["difference"]["float32"] < 1e-4
    assert result["equality"]["greedy"]["tokens"] == 30


@pytest.mark.parametrize(
    "wrong",
    [
        {"equality": {"greedy": {"graphs_equal_reference": False, "plain_equals_reference": True}}, "difference": {}},
        {"equality": {}, "difference": {"bf16": 0.06}},
    ],
)
def test_it_fails_on_other_tokens_and_beyond_the_tolerance(bench, wrong):
    assert not bench.verdict(wrong)
