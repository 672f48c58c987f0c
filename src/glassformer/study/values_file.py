"""``values.json``: a study's metric values by seed and document, enough to recompute its verdicts without the trials.

Trials may be deleted to save disk space, or a study shared without its weights: verdicts, table and notes need this file only.
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
from glassformer.foundation.files import read_json_object, write_atomically
from glassformer.study.planning.conditions import Condition
from glassformer.study.statistics.evidence import Problem, Trials

SCHEMA = 1
MOST_BYTES = 256 << 20
"""Bytes of a file of values: ten million figures and more."""


@dataclass(frozen=True)
class StudyValues:
    """The results of a study's trials. ``blocks``: documents are blocks of one text.

    ``seed_values``: the metric of each finished run. ``spent``: the fraction of the planned steps that was run. ``notes`` and
    ``remarks``: those made from the trials' folders.
    """

    trials: Mapping[str, Trials]
    weights: Floats
    blocks: bool
    seed_values: Mapping[str, Floats]
    tokens_per_second: Mapping[str, float | None]
    spent: Mapping[str, float]
    notes: tuple[str, ...]
    remarks: tuple[str, ...]
    groups: tuple[str, ...] | None = None
    """By document, what it belongs to."""
    tokens: Mapping[str, float | None] = field(default_factory=dict)
    """By variant, the tokens of the batches that a run really drew."""
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By variant, what its runs really took (``study_notes.measured_of_trials``)."""
    conditions: Mapping[str, tuple[Condition, ...]] = field(default_factory=dict)
    """By change, what else differs from the baseline, as far as the trials' folders show it."""


def write_values(file: Path, study: StudyValues, *, metric: str) -> None:
    """Writes ``values[seed][document]`` of every variant, the documents' weights, and problems of single runs."""
    document = {
        "schema": SCHEMA,
        "metric": metric,
        "blocks": study.blocks,
        "weights": study.weights.tolist(),
        "variants": {
            name: {
                "values": [[None if np.isnan(value) else value for value in row] for row in one.values.tolist()],
                "problems": {str(at): problem.value for at, problem in one.problems.items()},
                "exploratory": one.exploratory,
                "luck": one.tuning_variance,
                "seed_values": study.seed_values[name].tolist(),
                "tokens_per_second": study.tokens_per_second[name],
                "spent": study.spent[name],
                "tokens": study.tokens.get(name),
                "measured": dict(study.measured.get(name, {})),
                "conditions": [list(vars(condition).values()) for condition in study.conditions.get(name, ())],
            }
            for name, one in study.trials.items()
        },
        "notes": list(study.notes),
        "remarks": list(study.remarks),
        **({} if study.groups is None else {"groups": list(study.groups)}),
    }
    write_atomically(file, json.dumps(document, allow_nan=False))


def read_values(file: Path) -> StudyValues:
    """The inverse of ``write_values``."""
    try:
        document = read_json_object(file, "schema", most=MOST_BYTES)
    except RunError as error:
        raise RunError(f"{file} cannot be read as the values of a study ({error})", reason="damaged-values") from error
    try:
        if document["schema"] != SCHEMA:
            raise RunError(f"{file} has schema {document['schema']!r}; this version reads {SCHEMA}.", reason="other-schema")
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
                tuning_variance=float(one["luck"]),
            )
            for name, one in variants.items()
        }
        return StudyValues(
            trials,
            weights,
            bool(document["blocks"]),
            {name: np.asarray(one["seed_values"], dtype=np.float64) for name, one in variants.items()},
            {name: one["tokens_per_second"] for name, one in variants.items()},
            {name: float(one["spent"]) for name, one in variants.items()},
            tuple(document["notes"]),
            tuple(document["remarks"]),
            tuple(str(one) for one in document["groups"]) if "groups" in document else None,
            {name: one.get("tokens") for name, one in variants.items()},
            {name: dict(one.get("measured", {})) for name, one in variants.items()},
            {name: tuple(Condition(*pair) for pair in one.get("conditions", ())) for name, one in variants.items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{file} cannot be read as the values of a study ({type(error).__name__}: {error}).", reason="damaged-values"
        ) from error
