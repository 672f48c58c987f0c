"""Why pretraining helps: right or wrong against how often a person's line was seen, and how often the place was hidden.

    python bench/exposure.py RUN [--split validation] [--json FILE]

Counts both exactly from the run's seed (nothing is trained), asks the run about the people of the split, and prints the share
of right answers by quarter of each count, with the odds ratio of one more time for each (logistic regression).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import glassformer as gf
from glassformer.evaluation.proportions import wilson
from glassformer.evaluation.ranking import fit_logistic
from glassformer.foundation.files import write_json
from glassformer.objectives.exposure import exposure_of


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    run = gf.load(given.run)
    questions = run.data.part("questions").split(given.split)
    recipe = run.recipe
    counted = exposure_of(
        recipe.objective,
        run.data,
        questions,
        steps=run.checkpoint("last").step,
        context=recipe.model.context,
        batch_size=recipe.training.batch_size,
        seed=recipe.seed,
    )
    if counted is None:
        raise SystemExit("This run's objective hides no spans, so there is nothing to count.")
    right = np.array([one.answer == truth for one, truth in zip(run.ask(questions), questions.answers)], dtype=np.float64)
    found = {name: by_quarter(getattr(counted, name), right) for name in ("seen", "hidden")}
    scores = np.column_stack([counted.seen, counted.hidden]).astype(np.float64)
    weights = fit_logistic((scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), 1e-9), right)
    found["weights"] = dict(zip(("seen", "hidden"), weights[:2].tolist()))
    for name in ("seen", "hidden"):
        for row in found[name]:
            print(f"{name:7} {row['low']:6.0f} to {row['high']:6.0f}: {row['right']['value']:.3f} of {row['right']['n']}")
    print(f"weights of a logistic regression on both, in standard deviations: {found['weights']}")
    if given.json is not None:
        write_json(given.json, found)
    return found


def by_quarter(counts: np.ndarray, right: np.ndarray) -> list[dict[str, Any]]:
    """The share of right answers among people with the fewest, ..., the most; people with equal counts stay together."""
    edges = np.unique(np.quantile(counts, [0, 0.25, 0.5, 0.75, 1.0], method="inverted_cdf"))
    group = np.clip(np.searchsorted(edges, counts, side="right") - 1, 0, max(0, len(edges) - 2))
    rows = []
    for number in np.unique(group):
        inside = group == number
        share = wilson(int(right[inside].sum()), int(inside.sum()))
        rows.append({"low": float(counts[inside].min()), "high": float(counts[inside].max()), "right": share.to_dict()})
    return rows


if __name__ == "__main__":
    main()
