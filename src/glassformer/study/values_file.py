"""``values.json``: a study's metric values by seed and document, enough to recompute its verdicts without the trials.

Trials may be deleted to save disk space, or a study shared without its weights: verdicts, table and notes need this file only.
Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.foundation.distributions import Floats
from glassformer.foundation.files import read_versioned, write_atomically
from glassformer.study.planning.conditions import Condition
from glassformer.study.statistics.evidence import Problem, Trials

SCHEMA = 1
MOST_BYTES = 256 << 20
"""Bytes of a file of values: ten million figures and more."""


@dataclass(frozen=True)
class VariantValues:
    """What the trials of one variant gave. ``seed_values``: the metric of each finished run."""

    trials: Trials
    seed_values: Floats
    spent: float = 1.0
    """The fraction of the planned steps that was run."""
    tokens_per_second: float | None = None
    tokens: float | None = None
    """Of the batches that a run really drew."""
    measured: Mapping[str, float] = field(default_factory=dict)
    """What its runs really took (``study_notes.measured_of_trials``)."""
    conditions: tuple[Condition, ...] = ()
    """What else differs from the baseline, as far as the trials' folders show it."""


@dataclass(frozen=True)
class StudyValues:
    """The results of a study's trials. ``blocks``: documents are blocks of one text; ``groups``: what each belongs to.

    ``notes`` and ``remarks``: those made from the trials' folders.
    """

    variants: Mapping[str, VariantValues]
    weights: Floats
    blocks: bool
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None

    @property
    def trials(self) -> dict[str, Trials]:
        return {name: one.trials for name, one in self.variants.items()}


def write_values(file: Path, study: StudyValues, *, metric: str) -> None:
    """Writes ``values[seed][document]`` of every variant (null: NaN), the documents' weights, and problems of single runs."""
    document = {
        "schema": SCHEMA,
        "metric": metric,
        "blocks": study.blocks,
        "weights": study.weights.tolist(),
        "variants": {
            name: {
                "values": [[None if np.isnan(value) else value for value in row] for row in one.trials.values.tolist()],
                "problems": dict(one.trials.problems),
                "exploratory": one.trials.exploratory,
                "luck": one.trials.tuning_variance,
                "seed_values": one.seed_values.tolist(),
                "tokens_per_second": one.tokens_per_second,
                "spent": one.spent,
                "tokens": one.tokens,
                "measured": dict(one.measured),
                "conditions": [list(vars(condition).values()) for condition in one.conditions],
            }
            for name, one in study.variants.items()
        },
        "notes": study.notes,
        "remarks": study.remarks,
        **({} if study.groups is None else {"groups": study.groups}),
    }
    write_atomically(file, json.dumps(document, allow_nan=False))


def read_values(file: Path) -> StudyValues:
    """The inverse of ``write_values``."""
    return read_versioned(
        file, SCHEMA, _study, "restore it, or the trials it was made of", reason="damaged-values", most=MOST_BYTES
    )


def _study(document: Mapping[str, Any]) -> StudyValues:
    weights = np.asarray(document["weights"], dtype=np.float64)
    groups = tuple(map(str, document["groups"])) if "groups" in document else None
    variants = {name: _variant(name, one, len(weights)) for name, one in document["variants"].items()}
    notes, remarks = tuple(document["notes"]), tuple(document["remarks"])
    return StudyValues(variants, weights, bool(document["blocks"]), notes, remarks, groups)


def _variant(name: str, one: Mapping[str, Any], documents: int) -> VariantValues:
    values = np.array(one["values"], dtype=np.float64).reshape(len(one["values"]), documents)
    problems = {int(at): Problem(problem) for at, problem in one["problems"].items()}
    return VariantValues(
        Trials(name, values, problems, one["exploratory"], tuning_variance=float(one["luck"])),
        np.asarray(one["seed_values"], dtype=np.float64),
        float(one["spent"]),
        one["tokens_per_second"],
        one.get("tokens"),
        dict(one.get("measured", {})),
        tuple(Condition(*pair) for pair in one.get("conditions", ())),
    )
