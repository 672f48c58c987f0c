"""The first job of a process: a child process for each program, so that loading and choosing kernels counts.

Who writes once, as with a script, waits for this; the rates of later jobs are those of a process that stays.
``python -m glassformer.benchmark.first_job`` is the child: it reads its job from standard input and prints its rate.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from glassformer.benchmark.generators import Job, program_for
from glassformer.benchmark.peers import Sizes
from glassformer.benchmark.timing import timed, wait_for
from glassformer.foundation.errors import UsageError
from glassformer.foundation.runtime import Runtime, choose_runtime


def first_job_rate(name: str, job: Job, runtime: Runtime) -> float:
    """Tokens per second of the first job of a new process, its model already on the device."""
    order = asdict(job) | {"nanogpt": None if job.nanogpt is None else str(job.nanogpt.resolve())}
    machine = {"device": str(runtime.device), "precision": runtime.precision, "threads": runtime.threads}
    child = subprocess.run(
        [sys.executable, "-m", "glassformer.benchmark.first_job"],
        input=json.dumps({"name": name, "job": order, "machine": machine}),
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode != 0:
        last_line = child.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"{name} could not do its first job in a process of its own: {last_line}")
    return float(child.stdout.strip().rpartition("\n")[2])


def main() -> None:
    order = json.load(sys.stdin)
    runtime = choose_runtime(**order["machine"])
    sizes, nanogpt = Sizes(**order["job"].pop("sizes")), order["job"].pop("nanogpt")
    job = Job(sizes=sizes, nanogpt=None if nanogpt is None else Path(nanogpt), **order["job"])
    program = program_for(order["name"], job, runtime)
    wait_for(runtime.device)
    print(timed(program, runtime.device)())


if __name__ == "__main__":
    main()
