"""SIGTERM and Ctrl-C: the step is finished and saved, the exit code says which; a second Ctrl-C ends at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

BOTH = pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])


def stopped(fault, number: int, *mishaps) -> tuple[int, str]:
    """Starts with a mishap that marks a place, sends the signal there. A step goes on, an evaluation has to notice."""
    child = fault.start(*mishaps)
    fault.until((fault.root / "there").exists)
    child.kill(number)
    if mishaps[0][0] == "slow_step":
        (fault.root / "there-go").touch()
    return child.wait(), child.said


@BOTH
@pytest.mark.parametrize("step", [0, 10, 29])
def test_in_a_step(fault, whole, number: int, code: int, step: int) -> None:
    """Also in the first and in the last one."""
    ended, said = stopped(fault, number, ["slow_step", step, str(fault.root / "there")])
    assert ended == code
    assert f"Stopped by a signal after step {step + 1}, which is saved; go on with --resume." in said
    assert fault.run.steps()[-1] == step + 1
    assert fault.run.read_state()["status"] == "stopped"
    fault.finish()
    assert fault.sums() == whole["sums"]
    assert fault.run.read_state()["status"] == "finished"


@BOTH
def test_in_an_evaluation(fault, whole, number: int, code: int) -> None:
    ended, said = stopped(fault, number, ["slow_evaluation", str(fault.root / "there")])
    assert ended == code
    assert "after step 7" in said
    assert fault.run.steps()[-1] == 7
    fault.finish()
    assert fault.sums() == whole["sums"]
    from glassformer.runs.records import MetricsLog

    evaluated = [r["step"] for r in MetricsLog(fault.run.metrics_file).read() if "validation_loss" in r]
    assert evaluated == [7, 14, 21, 28, 30]  # the interrupted one was made up for


def test_in_the_last_evaluation(fault_recipe, new_fault) -> None:
    fault_recipe["evaluation"]["every"] = 1000
    fault = new_fault("last", fault_recipe)
    ended, said = stopped(fault, signal.SIGTERM, ["slow_evaluation", str(fault.root / "there")])
    assert ended == 143
    assert "after step 30" in said
    fault.finish()
    from glassformer.runs.records import MetricsLog

    assert [r["step"] for r in MetricsLog(fault.run.metrics_file).read() if "validation_loss" in r] == [30]


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_ends_at_once(fault, whole, first: int) -> None:
    child = fault.start(["slow_step", 10, str(fault.root / "there")])
    fault.until((fault.root / "there").exists)
    child.kill(first)
    for _ in range(2):  # two signals at once would be one: the child has done something after the first
        (fault.root / "there").unlink()
        fault.until((fault.root / "there").exists)
    child.kill(signal.SIGINT)
    assert child.wait() == 130  # in a step that nobody lets end
    fault.check_every_listed_checkpoint()
    assert fault.run.steps()[-1] == 9
    fault.finish()
    assert fault.sums() == whole["sums"]


def test_the_command_itself_with_imports_and_all(fault) -> None:
    """Not a forked child: ``python -m glassformer``, stopped by SIGTERM once it trains."""
    fault.recipe["training"]["steps"] = 100_000
    fault.__post_init__()
    words = [sys.executable, "-m", "glassformer", "train", str(fault.file), "--out", str(fault.run.root)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    fault.until(lambda: fault.run.steps())
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 143
    assert out == ""
    assert "Stopped by a signal after step" in err.splitlines()[-1]
    fault.check_every_listed_checkpoint()
