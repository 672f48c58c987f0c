"""How many runs of the atlas a machine does in a second, by the number of processes.

    python bench/atlas_rate.py --jobs 1,6,15

Each number trains the baseline with seeds 0, 1, 2, ...; runs of one seed must always have the same values. Printed are
runs per second from the start of the processes and without it, and the mean seconds of a run by what they were spent on.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from glassformer.atlas.protocol import BASELINE, Atlas, Job
from glassformer.foundation.files import read_json
from glassformer.foundation.metrics import LOSS
from glassformer.recipe import Recipe
from glassformer.study.planning.plan import VALIDATION_SPLIT, Trial
from glassformer.study.running.execution import gpus_to_share
from glassformer.study.running.executors.base import Ended, Task
from glassformer.study.running.executors.local import MPS_CONTROL, LocalExecutor
from glassformer.study.running.trial_results import read_trial


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", default="1,6,15")
    options.add_argument("--size", default="XS")
    options.add_argument("--text", default="wikitext-2")
    options.add_argument("--steps", type=int)
    options.add_argument("--rounds", type=int, default=1, help="Runs of each process.")
    given = options.parse_args()
    print(f"MPS: {shutil.which(MPS_CONTROL) or 'not on this machine'}", flush=True)
    atlas = Atlas.load(steps=given.steps)
    known: dict[int, np.ndarray] = {}
    for jobs in map(int, given.jobs.split(",")):
        measure(atlas, given.text, given.size, jobs, jobs * given.rounds, known)


def measure(atlas: Atlas, text: str, size: str, jobs: int, runs: int, known: dict[int, np.ndarray]) -> None:
    import torch

    gpus, free = gpus_to_share() if torch.cuda.is_available() else ([], 0)
    folder, different, finished = Path(tempfile.mkdtemp(prefix="atlas-rate-")), 0, []
    common = {"cwd": os.getcwd(), "plugins": [], "recheck": False}
    recipes = [Recipe.parse(atlas.recipe(Job(BASELINE, text, size, seed))).to_dict() for seed in range(runs)]
    begun = time.monotonic()
    with closing(LocalExecutor(jobs, logs=folder / "logs", gpus=gpus, gpu_bytes=free)) as executor:
        first = Task("inspect", "inspect", {**common, "recipe": recipes[0]})
        check = next(event.answer for event in executor.run([first]) if isinstance(event, Ended))["check"]
        values = {"study": str(folder), "allow_leaks": False, "split": VALIDATION_SPLIT, "check": check, "check_trained": False}
        values |= {"store": False, "planned_flops": 0.0, "travels": None}
        tasks = [
            Task("trial", f"{seed}", {**common, **values, "folder": str(folder / f"{seed}"), "recipe": recipe})
            for seed, recipe in enumerate(recipes)
        ]
        inspected = time.monotonic()
        for event in executor.run(tasks):
            if not isinstance(event, Ended):
                continue
            if event.answer.get("status") != "finished":
                print(event.task.label, event.answer, flush=True)
                continue
            seed = int(event.task.label)
            result = read_trial(folder / f"{seed}", Trial(BASELINE, seed, {}, ""), LOSS)
            assert result.units is not None
            own = np.asarray(result.units[LOSS.name].values)
            different += not np.array_equal(known.setdefault(seed, own), own)
            finished.append(time.monotonic() - inspected)
    spent: dict[str, float] = {}
    for file in folder.glob("*/timing.json"):
        for phase, seconds in read_json(file)["starts"][0]["seconds"].items():
            spent[phase] = spent.get(phase, 0.0) + seconds / max(1, len(finished))
    print(
        f"{jobs} processes: {len(finished)} of {runs} runs, inspected after {inspected - begun:.1f} s, first run after "
        f"{finished[0] if finished else 0:.1f} s, all in {finished[-1] if finished else 0:.1f} s: "
        f"{len(finished) / finished[-1] if finished else 0:.2f} runs/s; {different} differ from their like. Mean seconds: "
        + ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in spent.items()),
        flush=True,
    )
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
