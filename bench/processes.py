"""What pieces and processes cost on this machine's cores, as ratios within one run: interleaved rounds, medians.

    python bench/processes.py --rounds 5

Compares the seconds of a step of docstrings-char: one process as it comes; one process with 4 pieces, one thread each time; and
one process with two threads against two processes with one thread each (2 pieces).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from glassformer.runs.directory import RunDirectory

FORMS = {
    "one process, one thread": (1, None, 1),
    "one process, one thread, 4 pieces": (1, 4, 1),
    "one process, two threads": (1, None, 2),
    "two processes, one thread each, 2 pieces": (2, 2, 1),
}
RATIOS = (
    ("one process, one thread, 4 pieces", "one process, one thread"),
    ("two processes, one thread each, 2 pieces", "one process, two threads"),
)


def seconds_a_step(out: Path, processes: int, pieces: int | None, threads: int, steps: int) -> float:
    sets = ["training.device=cpu", f"training.steps={steps}", f"evaluation.every={steps}"]
    sets += [] if pieces is None else [f"training.pieces={pieces}"]
    command = [sys.executable, "-m", "glassformer", "train", "docstrings-char", "--out", str(out), "--quiet"]
    command += ["--processes", str(processes), *(word for one in sets for word in ("--set", one))]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stdout=subprocess.DEVNULL)
    return float(RunDirectory(out).timings()[-1]["seconds"]["steps"]) / (steps - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    given = parser.parse_args()
    found: dict[str, list[float]] = {name: [] for name in FORMS}
    with tempfile.TemporaryDirectory() as place:
        for number in range(given.rounds):
            for name, (processes, pieces, threads) in FORMS.items():
                out = Path(place) / f"{number}-{len(name)}"
                found[name].append(seconds_a_step(out, processes, pieces, threads, given.steps))
                print(f"round {number + 1}: {name}: {1000 * found[name][-1]:.1f} ms a step", flush=True)
    ratios = {f"{a} / {b}": [x / y for x, y in zip(found[a], found[b])] for a, b in RATIOS}
    for name, each in ratios.items():
        print(f"{name}: median {statistics.median(each):.2f} (from {min(each):.2f} to {max(each):.2f})")
    print(json.dumps({"load": os.getloadavg(), "seconds": found, "ratios": ratios}))


if __name__ == "__main__":
    main()
