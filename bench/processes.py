"""What pieces and processes cost on this machine's cores, as ratios within one run, with intervals. Needs idle cores.

    python bench/processes.py --pairs 60 --rounds 8

Both of docstrings-char, a step at a time. Pieces: one process with one thread takes a step of a batch that is not cut, and one
of the same batch in 4 pieces, in turns. Processes: through the command line, one run with two threads and one on two processes
with one thread each (2 pieces), in turns. A ratio is of two neighbours; printed are the median and a 95 % interval of it
(bootstrap over the pairs).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from glassformer.assembly import batches_of, prepare_data, starting_network, training_step
from glassformer.foundation.runtime import choose_runtime
from glassformer.recipe import load_recipe
from glassformer.runs.directory import RunDirectory

RECIPE, WARM_UP = "docstrings-char", 3


def steps_in_turns(pieces: int, pairs: int) -> list[list[float]]:
    """Seconds of a whole step and of one in pieces, in turns."""
    runtime, steps = choose_runtime(device="cpu", threads=1), []
    for cut in (None, pieces):
        recipe = load_recipe(RECIPE, {"training.device": "cpu", "training.pieces": cut})
        data = prepare_data(recipe)
        steps.append(training_step(recipe, starting_network(recipe, data)[0], runtime))
    batches, found = batches_of(recipe, data), []
    for number in range(WARM_UP + pairs):
        batch, seconds = batches.batch(number), [0.0, 0.0]
        for which in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter()
            steps[which](batch, number, 1.0)
            seconds[which] = time.perf_counter() - began
        found.append(seconds)
    return found[WARM_UP:]


def seconds_a_step(out: Path, processes: int, pieces: int | None, threads: int, steps: int) -> float:
    """Of a run through the command line, without its first step, evaluations and saving."""
    sets = ["training.device=cpu", f"training.steps={steps}", f"evaluation.every={steps}"]
    sets += [] if pieces is None else [f"training.pieces={pieces}"]
    command = [sys.executable, "-m", "glassformer", "train", RECIPE, "--out", str(out), "--quiet"]
    command += ["--processes", str(processes), *(word for one in sets for word in ("--set", one))]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stdout=subprocess.DEVNULL)
    return float(RunDirectory(out).timings()[-1]["seconds"]["steps"]) / (steps - 1)


def shown(name: str, pairs: list[list[float]]) -> dict[str, object]:
    """The ratio of the second to the first of each pair."""
    seconds = np.array(pairs)
    ratios, generator = seconds[:, 1] / seconds[:, 0], np.random.default_rng(0)
    medians = np.median(generator.choice(ratios, (10_000, len(ratios))), axis=1)
    low, high = np.quantile(medians, (0.025, 0.975))
    first, second = 1000 * np.median(seconds, axis=0)
    print(
        f"{name}: {np.median(ratios):.3f} [{low:.3f}, {high:.3f}], {len(ratios)} pairs; {first:.1f} and {second:.1f} ms a step"
    )
    return {"name": name, "median": float(np.median(ratios)), "interval": [float(low), float(high)], "seconds": pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60, help="steps of either kind in one process")
    parser.add_argument("--rounds", type=int, default=8, help="runs of either kind through the command line")
    parser.add_argument("--steps", type=int, default=30, help="of each such run")
    given = parser.parse_args()
    load = [os.getloadavg()[0]]
    results = [shown("4 pieces / not cut, one process, one thread", steps_in_turns(4, given.pairs))]
    pairs = []
    with tempfile.TemporaryDirectory() as place:
        for number in range(given.rounds):
            forms = [(1, None, 2), (2, 2, 1)]
            seconds = [0.0, 0.0]
            for which in (0, 1) if number % 2 else (1, 0):
                seconds[which] = seconds_a_step(Path(place) / f"{number}-{which}", *forms[which], given.steps)
            pairs.append(seconds)
            print(f"round {number + 1}: {1000 * seconds[0]:.1f} and {1000 * seconds[1]:.1f} ms a step", flush=True)
    if pairs:
        results.append(shown("two processes of one thread / one process of two threads", pairs))
    print(json.dumps({"load before and after": [*load, os.getloadavg()[0]], "results": results}))


if __name__ == "__main__":
    main()
