"""Where the seconds of one trial go, and the GPU's time by part and by kernel.

    python bench/run_profile.py --sizes XS S              # a run of the atlas's baseline, compiled
    python bench/run_profile.py --sizes T --text docstrings --plain --steps 20

For each size three trials in this process, as a worker of a study performs them: the first compiles, the second finds what was
compiled, the third is recorded by torch.profiler. Parts of a trial: the phases of its training, and *judging*, which follows.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from glassformer.atlas.protocol import BASELINE, Atlas, Job
from glassformer.foundation.config import override
from glassformer.foundation.files import read_json
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.recipe import Recipe
from glassformer.study.planning.plan import VALIDATION_SPLIT
from glassformer.study.running import perform_task
from glassformer.study.running.executors.base import Task

MARK = "part of a trial: "


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", nargs="+", default=["XS"])
    options.add_argument("--text", default="wikitext-2")
    options.add_argument("--row", default=BASELINE)
    options.add_argument("--steps", type=int)
    options.add_argument("--plain", action="store_true", help="Not compiled.")
    options.add_argument("--top", type=int, default=25, help="Kernels shown.")
    given = options.parse_args()
    _mark_parts()
    for size in given.sizes:
        recipe = Atlas.load(steps=given.steps).recipe(Job(given.row, given.text, size, 0))
        values = override(Recipe.parse(recipe).to_dict(), {} if given.plain else {"training.compile": True})
        check = _perform("inspect", values)["check"]
        for number in (1, 2):
            folder = Path(tempfile.mkdtemp())
            begun = time.perf_counter()
            _perform("trial", values, folder / "run", check)
            seconds = {key: round(one, 2) for key, one in read_json(folder / "run/timing.json")["starts"][0]["seconds"].items()}
            print(f"{size}, trial {number}: {time.perf_counter() - begun:.2f} s, of which training {seconds}", flush=True)
        cuda = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
        with profile(activities=[ProfilerActivity.CPU, *cuda]) as recorded:
            _perform("trial", values, Path(tempfile.mkdtemp()) / "run", check)
        _show(recorded, given.top)


def _perform(kind: str, recipe: dict[str, Any], folder: Path | None = None, check: Any = None) -> dict[str, Any]:
    values: dict[str, Any] = {"cwd": os.getcwd(), "plugins": [], "recheck": False, "recipe": recipe}
    if folder is not None:
        values |= {"study": str(folder.parent), "folder": str(folder), "allow_leaks": False, "split": VALIDATION_SPLIT}
        values |= {"check": check, "check_trained": False, "store": False, "planned_flops": 0.0, "travels": None}
    answer = perform_task.perform(Task(kind, kind, values, "one program"), own_process=True)
    assert answer["status"] == "finished", answer
    return answer


def _mark_parts() -> None:
    """Phases of the training, and the judging after it, appear among the profiler's events."""
    phase, judge = Stopwatch.phase, perform_task._judge

    class Marked:
        def __init__(self, inner: Any, name: str) -> None:
            self.inner, self.outer = inner, record_function(MARK + name)

        def __enter__(self) -> None:
            self.outer.__enter__()
            self.inner.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.inner.__exit__(*error)
            self.outer.__exit__(*error)

    def judged(*arguments: Any) -> None:
        with record_function(MARK + "judging"):
            judge(*arguments)

    Stopwatch.phase = lambda self, name: Marked(phase(self, name), name)  # type: ignore[method-assign, assignment, return-value]
    perform_task._judge = judged


def _show(recorded: profile, top: int) -> None:
    """By part: the seconds on the wall, and those of the GPU's kernels that began in it."""
    events = recorded.profiler.kineto_results.events()  # type: ignore[union-attr]
    marks = [one for one in events if one.name().startswith(MARK) and one.device_type() == DeviceType.CPU]
    spans = sorted((one.start_ns(), one.duration_ns(), one.name().removeprefix(MARK)) for one in marks)
    kernels = [one for one in events if one.device_type() == DeviceType.CUDA and not one.name().startswith(MARK)]
    spent: dict[str, Counter[str]] = {name: Counter() for _, _, name in spans}
    counts: dict[str, Counter[str]] = {name: Counter() for name in spent}
    at = 0
    for one in sorted(kernels, key=lambda one: one.start_ns()):
        while at + 1 < len(spans) and spans[at + 1][0] <= one.start_ns():
            at += 1
        spent[spans[at][2]][one.name()[:90]] += one.duration_ns()
        counts[spans[at][2]][one.name()[:90]] += 1
    for part in spent:
        wall = sum(duration for _, duration, name in spans if name == part) / 1e6
        gpu, number = spent[part].total() / 1e6, counts[part].total()
        print(f"  {part}: wall {wall:.1f} ms, GPU {gpu:.1f} ms in {number} kernels")
    for part in ("steps", "judging"):
        for kernel, duration in spent[part].most_common(top):
            number = counts[part][kernel]
            print(f"    {part}: {duration / 1e6:8.2f} ms {number:6d} x {duration / number / 1e3:8.1f} us  {kernel}")


if __name__ == "__main__":
    main()
