"""A recipe trained with several seeds -> every metric as a mean over seeds with Student's interval.

    python bench/seeds.py RECIPE [--seeds 6] [--set KEY=VALUE]... [--splits validation,test:dev] [--runs FOLDER] --out FILE

One run says nothing about the next one. Runs that are in FOLDER already go on where they stood, and whole ones are only
evaluated. The file is written after each seed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import glassformer as gf
from glassformer.evaluation.interval_estimates import mean
from glassformer.foundation.config import parse_assignment
from glassformer.foundation.files import write_json


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--splits", default="validation")
    parser.add_argument("--runs", type=Path, help="keep the runs here")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    changes = dict(parse_assignment(text) for text in given.set)
    with tempfile.TemporaryDirectory() as scratch:
        return over_seeds(given.recipe, changes, given.seeds, given.splits.split(","), given.runs or Path(scratch), given.out)


def over_seeds(
    recipe: str, changes: Mapping[str, Any], seeds: int, splits: Sequence[str], runs: Path, out: Path
) -> dict[str, Any]:
    """Every metric of every split, by seed and as a mean."""
    by_seed: dict[str, dict[str, list[float | None]]] = {split: {} for split in splits}
    found: dict[str, Any] = {}
    for seed in range(seeds):
        folder = runs / f"{Path(recipe).stem}-{seed}"
        run = gf.train(recipe, set=changes, seed=seed, out=folder, resume="or begin")
        for split in splits:
            for name, one in run.evaluate(split).metrics.items():
                by_seed[split].setdefault(name, []).append(one.value)
        found = {
            "what": f"{recipe}: mean over seeds, Student's interval of 95 %",
            "date": datetime.now(UTC).date().isoformat(),
            "set": dict(changes),
            "splits": {split: {name: _summary(values) for name, values in one.items()} for split, one in by_seed.items()},
        }
        write_json(out, found)
        latest = {split: {name: values[-1] for name, values in one.items()} for split, one in by_seed.items()}
        print(f"seed {seed}: {latest}", flush=True)
    return found


def _summary(values: Sequence[float | None]) -> dict[str, Any]:
    return {**mean(np.asarray([value for value in values if value is not None])).to_dict(), "by_seed": list(values)}


if __name__ == "__main__":
    main()
