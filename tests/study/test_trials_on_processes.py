"""Trials that use several processes each: the numbers of one process with as many pieces, resumed, ended with their driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.refusals import refused

import glassformer
from glassformer.foundation.errors import UsageError
from glassformer.study.compare import compare
from glassformer.study.planning.planned_study import plan_studies
from glassformer.study.running.execution import Execution
from glassformer.training.parallel.launch import WITH_PARENT

CHANGES = [{"name": "none", "set": {"model.positions": "none"}}]


def test_processes_are_those_of_the_gpus():
    assert Execution().processes == 1
    assert Execution(on="ray", gpus_per_trial=0.25).processes == 1
    assert Execution(on="slurm", gpus_per_trial=4).processes == 4
    assert Execution(processes_per_trial=2).processes == 2
    with refused(UsageError, "processes-and-gpus"):
        Execution(on="slurm", gpus_per_trial=4, processes_per_trial=2)
    for number in (3, 2.5, -1, float("inf"), float("nan")):
        with refused(UsageError, "bad-gpus-per-trial"):
            Execution(on="ray", gpus_per_trial=number)


def test_pieces_stand_in_the_plan_and_a_recipes_own_stay(recipe, tmp_path):
    plan = {"base": recipe, "changes": CHANGES}
    (one,) = plan_studies(plan, out=tmp_path / "a", pieces=2)
    assert one.plan.set == {"training.pieces": 2}
    (own,) = plan_studies({**plan, "set": {"training.pieces": 5 - 1, "training.batch_size": 8}}, out=tmp_path / "b", pieces=2)
    assert own.plan.set["training.pieces"] == 4
    (alone,) = plan_studies(plan, out=tmp_path / "c")
    assert alone.plan.set == {}


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one_with_two_pieces(recipe, tmp_path):
    recipe["training"] |= {"steps": 6}
    vary = {"model.positions": ["none"]}
    pieces = {"training.pieces": 2}
    one = compare(recipe, vary, set=pieces, seeds=2, out=tmp_path / "one", on="inline", store=False)
    two = compare(recipe, vary, seeds=2, out=tmp_path / "two", on="local", jobs=1, processes=2, store=False)
    for name in ("base", "model.positions=none"):
        assert two.seed_values(name).tolist() == one.seed_values(name).tolist()
    environment = two.runs("base")[0].directory.read_environment()
    assert environment["processes"][0]["processes"] == 2


@pytest.mark.slow
def test_the_processes_of_a_trial_end_with_the_program_that_started_them(recipe, tmp_path):
    """Its standard input closes: they save the step and end, and the run can be resumed."""
    recipe["training"] |= {"steps": 100_000, "pieces": 2}
    (tmp_path / "mine.yaml").write_text(json.dumps(recipe))
    words = [sys.executable, "-m", "glassformer", "train", "mine.yaml", "--processes", "2", "--out", "run"]
    source = str(Path(glassformer.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", WITH_PARENT: "1"}
    child = subprocess.Popen(words, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 300
    while not list((tmp_path / "run").glob("checkpoints/step-*")) and time.monotonic() < end:
        assert child.poll() is None
        time.sleep(0.2)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(120) == 128 + signal.SIGTERM
    assert json.loads((tmp_path / "run" / "state.json").read_text())["status"] != "running"
