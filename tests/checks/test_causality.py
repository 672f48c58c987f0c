"""Causality: a leak is confirmed on its row alone, shrunk to its smallest row and to one token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.checks.check import check_model
from glassformer.checks.check_report import Finding
from glassformer.checks.forward_passes import Passes
from glassformer.checks.laws import Coverage, future_leak
from glassformer.checks.subject import Probes, callable_subject
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

TABLE = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
CONTEXT = 24


def found(function: Any, *, quick: bool = True) -> tuple[Finding | None, Coverage]:
    subject = callable_subject(function, vocabulary=7, context=CONTEXT)
    coverage = Coverage(set())
    return future_leak(Passes(subject), Probes(subject, quick=quick), coverage), coverage


def causal_sum(ids_BT: Tensor) -> Tensor:
    return TABLE[ids_BT].cumsum(1)


def test_honest_function_is_tried_at_several_lengths_and_by_gradients() -> None:
    finding, coverage = found(causal_sum)
    assert finding is None
    assert coverage.lengths == {2, 3, 5, 8, 13, 23, 24}
    assert coverage.gradients > 0
    assert "gradients" in str(coverage)


def test_next_token_in_a_row_of_two() -> None:
    finding, _ = found(lambda ids_BT: causal_sum(ids_BT) + 1e-6 * TABLE[ids_BT].roll(-1, dims=1))
    assert finding is not None
    assert (finding.from_position, finding.to_position) == (1, 0)
    tokens, changed = finding.example["tokens"], finding.example["changed"]
    assert len(tokens) == 2
    assert [a != b for a, b in zip(tokens, changed)] == [False, True]
    step = 1e-6 * (TABLE[changed[1]] - TABLE[tokens[1]]).abs().max()
    assert finding.size == pytest.approx(float(step), rel=1e-5)


@pytest.mark.parametrize(("source", "target"), [(CONTEXT - 1, 0), (CONTEXT - 1, CONTEXT - 2), (20, 4)])
def test_a_single_pair_of_places_of_a_full_row(source: int, target: int) -> None:
    def pair(ids_BT: Tensor) -> Tensor:
        scores = causal_sum(ids_BT)
        if ids_BT.shape[1] == CONTEXT:
            scores = scores.clone()
            scores[:, target] += 1e-6 * TABLE[ids_BT[:, source]]
        return scores

    finding, _ = found(pair)
    assert finding is not None
    assert (finding.from_position, finding.to_position) == (source, target)
    assert len(finding.example["tokens"]) == CONTEXT


def test_a_leak_between_rows_is_not_taken_for_one_from_the_future() -> None:
    finding, _ = found(
        lambda ids_BT: causal_sum(ids_BT) + TABLE[ids_BT.roll(1, dims=0)].mean(1, keepdim=True) * (len(ids_BT) > 1)
    )
    assert finding is None


def test_two_tokens_that_only_leak_together() -> None:
    def both(ids_BT: Tensor) -> Tensor:
        twins = (ids_BT[:, -1] == ids_BT[:, -2]) & (ids_BT.shape[1] > 2)
        return causal_sum(ids_BT) + 1e-3 * twins[:, None, None]

    finding, _ = found(both)
    assert finding is not None
    assert finding.to_position == 0


def test_a_function_of_one_length_only_is_tried_at_that_length() -> None:
    def fixed(ids_BT: Tensor) -> Tensor:
        if ids_BT.shape[1] != CONTEXT:
            raise ValueError
        return causal_sum(ids_BT)

    finding, coverage = found(fixed)
    assert finding is None
    assert coverage.lengths == {CONTEXT}


def test_routing_changes_the_rounding_and_is_no_leak() -> None:
    """Experts read as many rows as chose them; without residuals the norms enlarge what that changes of the last bits."""
    parts = {"mixer": "forgetting", "positions": "alibi", "merge": "shuffle", "block": "no_residual", "norm": "rms"}
    parts |= {"feedforward": "experts", "stack": "hyper_connections"}
    config = ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": 11, "dropout": 0.1, **parts})
    report = check_model(build_model(config, 11, seed=1), laws=frozenset({"causality"}))
    assert report.passed, str(report)
