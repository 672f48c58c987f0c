"""Runs cells of the atlas again from nothing, each by the command that is printed with it, and compares words and values.

    python bench/atlas_again.py --size T --cells 10

The word comes from the new runs of the row, judged with the rest of its family from the records: in a family the correction
of a row depends on the others.
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

from glassformer.atlas.cells import OPEN, UNTESTABLE, Cell, cells
from glassformer.atlas.protocol import Atlas
from glassformer.atlas.records import Records, TrialRecord, records_folder


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--size", default="T")
    options.add_argument("--cells", type=int, default=10)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--rows", default="", help="Names, separated by commas; by default those with a word, in order.")
    given = options.parse_args()
    atlas = Atlas.load()
    known = [
        one
        for one in cells(atlas, Records.load([records_folder()]))
        if one.size == given.size and one.word not in (OPEN, UNTESTABLE)
    ]
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
    assert cell.group is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cell.jsonl"
        words = shlex.split(cell.command.replace("cell.jsonl", str(file)))[1:]
        subprocess.run([sys.executable, "-m", "glassformer", *words, "--jobs", str(jobs)], check=True, capture_output=True)
        known = Records.load([file, records_folder()])
    new = {one.key for one in known.trials.values() if one.file == file.name}
    known.trials = {key: one for key, one in known.trials.items() if key in new or place(one) != place(cell.group.runs[0])}
    found = cells(atlas, known)
    return next(one for one in found if (one.row, one.text, one.size, one.base) == (cell.row, cell.text, cell.size, cell.base))


def place(run: TrialRecord) -> tuple[str, str, str, str]:
    return run.job.row, run.job.text, run.job.size, run.job.base


def different(before: Cell, now: Cell) -> int:
    assert before.group is not None
    assert now.group is not None
    values = {one.job.seed: one.values for one in now.group.runs}
    return sum(not np.array_equal(one.values, values.get(one.job.seed)) for one in before.group.runs)


if __name__ == "__main__":
    main()
