"""Runs cells of the atlas again from nothing, each by the command that is printed with it, and compares words and values.

    python bench/atlas_again.py --size T --cells 10

The words come from the new runs alone: those of the row and of its own baseline.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from glassformer.atlas.cells import Cell, cells
from glassformer.atlas.protocol import Atlas
from glassformer.atlas.records import Records, records_folder


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--size", default="T")
    options.add_argument("--cells", type=int, default=10)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--rows", default="", help="Names, separated by commas; by default those with a word, in order.")
    given = options.parse_args()
    atlas = Atlas.load()
    known = [one for one in cells(atlas, Records.load([records_folder()])) if one.size == given.size and one.word != "open"]
    rows = given.rows.split(",") if given.rows else [one.row.name for one in known if one.row.role == "row"]
    chosen = [one for one in known if one.row.name in rows][: given.cells]
    same = 0
    for cell in chosen:
        begun = time.monotonic()
        again = run_again(atlas, cell, given.jobs)
        same += again.word == cell.word
        print(
            f"{cell.row.name}, {cell.text}, {cell.size}: {cell.word} {cell.difference.value:+.5f} then, {again.word} "
            f"{again.difference.value:+.5f} now, {different(cell, again)} of {len(cell.losses)} runs have other values, "
            f"{time.monotonic() - begun:.0f} s",
            flush=True,
        )
    print(f"{same} of {len(chosen)} cells have the same word.")


def run_again(atlas: Atlas, cell: Cell, jobs: int) -> Cell:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cell.jsonl"
        words = shlex.split(cell.command.replace("cell.jsonl", str(file)))[1:]
        subprocess.run([sys.executable, "-m", "glassformer", *words, "--jobs", str(jobs)], check=True, capture_output=True)
        found = cells(atlas, Records.load([file]))
    return next(one for one in found if (one.row, one.text, one.size, one.base) == (cell.row, cell.text, cell.size, cell.base))


def different(before: Cell, now: Cell) -> int:
    assert before.group is not None
    assert now.group is not None
    values = {one.job.seed: one.values for one in now.group.runs}
    return sum(not np.array_equal(one.values, values.get(one.job.seed)) for one in before.group.runs)


if __name__ == "__main__":
    main()
