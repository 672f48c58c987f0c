"""kill -9 at random moments, with dropout and pieces on: resumed, the bits of the unbroken run; and what would be noticed."""

from __future__ import annotations

import random
import time

import pytest

from glassformer.runs.records import MetricsLog


def break_and_finish(fault, whole, chance: random.Random, kills: int) -> list[int]:
    """Kills the run ``kills`` times at random moments, then lets it finish; gives the steps saved when it died."""
    saved = []
    for _ in range(kills):
        child = fault.start()
        time.sleep(chance.uniform(0.0, 1.05) * whole["seconds"])
        child.kill()
        child.wait()
        fault.check_every_listed_checkpoint()
        saved.append(max(fault.run.steps(), default=0))
    fault.finish()
    fault.check_every_listed_checkpoint()
    return saved


@pytest.mark.parametrize("number", range(4))
def test_killed_runs_end_in_the_same_bits(fault, whole, number: int) -> None:
    break_and_finish(fault, whole, random.Random(number), kills=1 + number % 2)
    assert fault.sums() == whole["sums"]


@pytest.mark.slow
def test_a_hundred_killed_runs_end_in_the_same_bits(new_fault, whole) -> None:
    saved = []
    for number in range(100):
        fault = new_fault(f"run-{number}")
        saved += break_and_finish(fault, whole, random.Random(1000 + number), kills=1 + number % 3)
        assert fault.sums() == whole["sums"], f"run {number}, killed with {saved[-1 - number % 3 :]} saved"
    assert len(set(saved)) > 5  # the moments were spread over the run


@pytest.mark.parametrize("step", [3, 12, 21])
def test_from_every_saved_step(fault, whole, step: int) -> None:
    """Killed as soon as the checkpoint is there: in the middle of an epoch, before and after evaluations."""
    child = fault.start(["slow_step", step, str(fault.root / "there")])
    fault.until((fault.root / "there").exists)
    assert fault.run.steps()[-1] == step
    child.kill()
    child.wait()
    assert "Resuming from step" in fault.finish()
    assert fault.sums() == whole["sums"]


def test_records_are_those_of_the_unbroken_run(new_fault, whole) -> None:
    straight, broken = new_fault("straight"), new_fault("broken")
    straight.finish()
    break_and_finish(broken, whole, random.Random(7), kills=2)

    def figures(fault) -> list[tuple[int, float | None, float | None]]:
        records = MetricsLog(fault.run.metrics_file).read()
        return [(record["step"], record.get("loss"), record.get("validation_loss")) for record in records]

    assert figures(broken) == figures(straight)


@pytest.mark.parametrize("left_out", [False, True])
def test_randomness_that_is_left_out_is_noticed(new_fault, left_out: bool) -> None:
    """The negative test: the same procedure, with dropout's generator neither saved nor derived, ends in other bits."""
    mishaps = [["no_reseeding"]] if left_out else []
    straight, broken = new_fault("straight"), new_fault("broken")
    straight.finish(*mishaps)
    child = broken.start(*mishaps, ["slow_step", 14, str(broken.root / "there")])
    broken.until((broken.root / "there").exists)
    child.kill()
    child.wait()
    broken.finish(*mishaps)
    assert (broken.sums() == straight.sums()) == (not left_out)


def test_a_kill_before_the_first_checkpoint_begins_again(fault, whole) -> None:
    child = fault.start(["slow_step", 0, str(fault.root / "there")])
    fault.until((fault.root / "there").exists)
    child.kill()
    child.wait()
    assert fault.run.steps() == []
    assert "has no complete checkpoint: starting from the first step" in fault.finish()
    assert fault.sums() == whole["sums"]
