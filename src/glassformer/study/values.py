"""The values a study was judged by, seed by document, in one file -> it can be judged again without its trials.

Trials may be removed to save room, or a study sent without its weights: the verdicts need only this. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import RunError
from glassformer.foundation.files import write_atomically
from glassformer.study.evidence import Problem, Trials

SCHEMA = 1


def write_values(file: Path, trials: Mapping[str, Trials], weights: Floats, *, blocks: bool, metric: str) -> None:
    """``values[seed][document]`` of every variant, the documents' weights and what is wrong with single runs."""
    document = {
        "schema": SCHEMA,
        "metric": metric,
        "blocks": blocks,
        "weights": weights.tolist(),
        "variants": {
            name: {
                "values": [[None if np.isnan(value) else value for value in row] for row in one.values.tolist()],
                "problems": {str(at): problem.value for at, problem in one.problems.items()},
                "exploratory": one.exploratory,
            }
            for name, one in trials.items()
        },
    }
    write_atomically(file, json.dumps(document, allow_nan=False))


def read_values(file: Path) -> tuple[dict[str, Trials], Floats, bool]:
    """The trials as they were judged, their weights, and whether documents are blocks of one text."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise RunError(f"{file} has schema {document['schema']!r}; this version reads {SCHEMA}.")
        weights = np.asarray(document["weights"], dtype=np.float64)
        trials = {
            name: Trials(
                name,
                np.array(
                    [[np.nan if value is None else value for value in row] for row in one["values"]], dtype=np.float64
                ).reshape(len(one["values"]), len(weights)),
                {int(at): Problem(problem) for at, problem in one["problems"].items()},
                one["exploratory"],
            )
            for name, one in document["variants"].items()
        }
        return trials, weights, bool(document["blocks"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{file} cannot be read as the values of a study ({type(error).__name__}: {error}).") from error
