"""Steps that are measured while they are taken: the same bits, and as much memory as the step takes on fake tensors."""

from __future__ import annotations

import pytest

from glassformer.experiment import train
from glassformer.recipe_cost import plan
from glassformer.runs.checkpoint import checkpoint_checksums
from glassformer.runs.records import MetricsLog
from glassformer.training.peak_memory import measured_steps


@pytest.mark.parametrize("steps", [1, 2, 3, 24, 1000])
def test_the_second_step_the_last_and_one_of_the_second_half(steps):
    found = measured_steps(steps)
    assert {min(1, steps - 1), steps - 1} <= found <= set(range(steps))
    assert len(found) <= 3
    assert any(steps // 2 <= one for one in found)


def test_measuring_changes_no_bit_and_records_what_a_step_takes(recipe, tmp_path):
    plain, measured = (train(recipe, out=tmp_path / str(which), threads=1, measure=which) for which in (False, True))
    assert checkpoint_checksums(plain.directory, 24) == checkpoint_checksums(measured.directory, 24)
    without, found = (MetricsLog(run.directory.metrics_file).read()[-1] for run in (plain, measured))
    assert "peak_bytes" not in without
    assert found["peak_bytes"] == pytest.approx(plan(recipe).peak_bytes, rel=0.05)
    assert found["flops_growth"] == 1.0
