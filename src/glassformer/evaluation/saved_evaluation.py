"""Saves and loads the evaluation of a run's checkpoint, with the sums by unit."""

from __future__ import annotations

from glassformer.evaluation.results import Evaluation
from glassformer.foundation.files import read_json, write_json
from glassformer.runs.directory import RunDirectory


def saved_evaluation(run: RunDirectory, split: str, step: int) -> Evaluation | None:
    """None if there is none, or if it is of another checkpoint: earlier versions named it after a damaged one."""
    file = run.evaluation_file(split, step)
    found = Evaluation.from_dict(read_json(file)) if file.is_file() else None
    return found if found is not None and found.step == step else None


def save_evaluation(run: RunDirectory, split: str, result: Evaluation) -> Evaluation:
    """Writes the evaluation and returns it as read back; in a read-only run it is returned unchanged."""
    assert result.step is not None
    try:
        write_json(run.evaluation_file(split, result.step), {"schema": RunDirectory.SCHEMA, **result.to_file_dict()})
    except PermissionError:
        return result
    return saved_evaluation(run, split, result.step) or result
