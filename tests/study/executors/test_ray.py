"""A real Ray on this machine, in a process of its own: each task answered once, a missing address said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'glassformer[ray]'")

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
from glassformer.foundation.errors import GlassformerError
from glassformer.study.executors.base import Ended, Started, Task
from glassformer.study.executors.ray import RayExecutor

tasks = [Task("nothing", f"number {n}", {"cwd": sys.argv[1], "plugins": []}) for n in range(3)]
with RayExecutor(jobs=1) as executor:
    events = list(executor.run(tasks))
ended = {event.task.label: event.answer["status"] for event in events if isinstance(event, Ended)}
print(json.dumps({"ended": ended, "started": sum(isinstance(event, Started) for event in events)}))
"""


def test_tasks_go_through_a_real_ray(tmp_path: Path) -> None:
    environment = {**os.environ, "RAY_DISABLE_IMPORT_WARNING": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    assert answer["started"] == 3
    # a task of no kind fails, which is an answer: it was carried to a node and back
    assert answer["ended"] == {"number 0": "failed", "number 1": "failed", "number 2": "failed"}
