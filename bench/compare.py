"""Twelve short runs side by side against one after the other: wall-clock seconds and their ratio, in one run.

    python bench/compare.py [--runs 12] [--seconds 10] [--steps N] [--out RESULT.json]

One after the other: a process per run, with as many threads as the machine has cores, as somebody would write it who has no
study: train, then measure. Side by side: the same runs as a study with the local executor. Start-up is included in both;
the study also checks its two variants, and single runs here check nothing, so the comparison does not flatter the study.
``--steps`` is found by trying, so that a run takes about ``--seconds`` one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from glassformer.foundation.files import write_json
from glassformer.foundation.machine import cores

RECIPE = "docstrings-char"
GATE = 0.75
"""The highest ratio that is promised on two cores."""
TRYING = 40  # steps of the run that finds out how long a step takes

ALONE = """
import json, sys, time
begun = time.perf_counter()
import glassformer as gf
from glassformer.checks.check_report import CheckReport
settings, out = json.loads(sys.argv[1]), sys.argv[2]
unchecked = CheckReport("not checked")
run = gf.train("docstrings-char", set=settings, out=out, checked=unchecked)
run.evaluation(checked=unchecked)
print(run.records()[-1]["seconds"])
"""


def settings_of(steps: int, seed: int) -> dict[str, Any]:
    return {"training.steps": steps, "evaluation.every": steps, "checkpoint.every": steps, "seed": seed}


def alone(steps: int, seed: int, out: Path) -> tuple[float, float]:
    """One run in a process of its own with all cores: seconds in all, and seconds of training in it."""
    begun = time.perf_counter()
    words = [sys.executable, "-c", ALONE, json.dumps(settings_of(steps, seed)), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(cores())}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return time.perf_counter() - begun, float(done.stdout.split()[-1])


def find_steps(seconds: float, folder: Path) -> int:
    """As many steps as make a run take ``seconds``, start-up included."""
    whole, training = alone(TRYING, 0, folder / "trying")
    return max(TRYING, round((seconds - (whole - training)) / (training / TRYING)))


def side_by_side(steps: int, runs: int, folder: Path) -> float:
    """The same number of runs as a study: two variants, so half as many seeds."""
    plan = {
        "base": RECIPE,
        "set": {key: value for key, value in settings_of(steps, 0).items() if key != "seed"},
        "changes": [{"name": "shifted", "set": {"model.merge": "shift"}}],
        "seeds": runs // 2,
    }
    file = folder / "plan.json"
    write_json(file, plan)
    program = "import json, sys; import glassformer as gf; gf.compare(json.load(open(sys.argv[1])), out=sys.argv[2])"
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, str(file), str(folder / "study")], check=True, capture_output=True)
    return time.perf_counter() - begun


def measure(runs: int, seconds: float, steps: int | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-compare-") as place:
        folder = Path(place)
        steps = steps or find_steps(seconds, folder)
        one_by_one = [alone(steps, seed, folder / f"alone-{seed}")[0] for seed in range(runs)]
        together = side_by_side(steps, runs, folder)
    return {
        "machine": {
            "cores": cores(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
        },
        "runs": runs,
        "steps": steps,
        "one_after_the_other": sum(one_by_one),
        "seconds_each": one_by_one,
        "side_by_side": together,
        "ratio": together / sum(one_by_one),
        "gate": GATE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")
    options = parser.parse_args()
    result = measure(options.runs, options.seconds, options.steps)
    print(f"{result['runs']} runs of {result['steps']} steps on {result['machine']['cores']} cores")
    print(f"one after the other: {result['one_after_the_other']:.1f} s")
    print(f"side by side:        {result['side_by_side']:.1f} s")
    print(f"ratio:               {result['ratio']:.3f} (at most {GATE} promised on two cores)")
    if options.out is not None:
        write_json(options.out, result)


if __name__ == "__main__":
    main()
