"""The values a study was judged by, seed by document, in one file -> it can be judged again without its trials.

Trials may be removed to save room, or a study sent without its weights: the verdicts, the table and the notes need only this.
Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import RunError
from glassformer.foundation.files import write_atomically
from glassformer.study.evidence import Problem, Trials

SCHEMA = 1


@dataclass(frozen=True)
class KeptValues:
    """What the trials of a study gave. ``trials`` have the luck of their tuning; ``blocks``: documents are parts of one text.

    ``seed_values``: the metric of each finished run. ``spent``: the part of the planned steps that was taken. ``notes`` and
    ``remarks``: what the trials' own folders told. Files of earlier versions have only the first three.
    """

    trials: Mapping[str, Trials]
    weights: Floats
    blocks: bool
    seed_values: Mapping[str, Floats]
    tokens_per_second: Mapping[str, float | None] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def write_values(file: Path, kept: KeptValues, *, metric: str) -> None:
    """``values[seed][document]`` of every variant, the documents' weights and what is wrong with single runs."""
    document = {
        "schema": SCHEMA,
        "metric": metric,
        "blocks": kept.blocks,
        "weights": kept.weights.tolist(),
        "variants": {
            name: {
                "values": [[None if np.isnan(value) else value for value in row] for row in one.values.tolist()],
                "problems": {str(at): problem.value for at, problem in one.problems.items()},
                "exploratory": one.exploratory,
                "luck": one.luck,
                "seed_values": kept.seed_values[name].tolist(),
                "tokens_per_second": kept.tokens_per_second.get(name),
                "spent": kept.spent.get(name, 1.0),
            }
            for name, one in kept.trials.items()
        },
        "notes": list(kept.notes),
        "remarks": list(kept.remarks),
    }
    write_atomically(file, json.dumps(document, allow_nan=False))


def read_values(file: Path) -> KeptValues:
    """The inverse of ``write_values``."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise RunError(f"{file} has schema {document['schema']!r}; this version reads {SCHEMA}.")
        weights = np.asarray(document["weights"], dtype=np.float64)
        variants = document["variants"]
        trials = {
            name: Trials(
                name,
                np.array(
                    [[np.nan if value is None else value for value in row] for row in one["values"]], dtype=np.float64
                ).reshape(len(one["values"]), len(weights)),
                {int(at): Problem(problem) for at, problem in one["problems"].items()},
                one["exploratory"],
                luck=float(one.get("luck", 0.0)),
            )
            for name, one in variants.items()
        }
        seeds = {name: one.get("seed_values", _means(trials[name].values, weights)) for name, one in variants.items()}
        return KeptValues(
            trials,
            weights,
            bool(document["blocks"]),
            {name: np.asarray(values, dtype=np.float64) for name, values in seeds.items()},
            {name: one.get("tokens_per_second") for name, one in variants.items()},
            {name: float(one.get("spent", 1.0)) for name, one in variants.items()},
            tuple(document.get("notes", ())),
            tuple(document.get("remarks", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{file} cannot be read as the values of a study ({type(error).__name__}: {error}).") from error


def _means(values: Floats, weights: Floats) -> Floats:
    """The metric over the whole set of each run that has one."""
    whole = values[np.isfinite(values).all(axis=1)]
    return np.asarray(whole @ (weights / max(weights.sum(), 1e-300)))
