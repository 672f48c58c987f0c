"""An evaluation of a run's last checkpoint -> its file in the run, and back, with the sums by unit."""

from __future__ import annotations

from glassformer.evaluation.results import Evaluation
from glassformer.foundation.files import read_json, write_json
from glassformer.runs.directory import RunDirectory


def kept_evaluation(run: RunDirectory, split: str, step: int) -> Evaluation | None:
    """None where there is none, or one of another checkpoint: earlier versions named it after a damaged one."""
    file = run.evaluation_file(split, step)
    found = Evaluation.from_dict(read_json(file)) if file.is_file() else None
    return found if found is not None and found.step == step else None


def keep_evaluation(run: RunDirectory, split: str, result: Evaluation) -> Evaluation:
    """The evaluation as it can be read from then on; of a run that may only be read, as it is, to be measured again."""
    assert result.step is not None
    try:
        write_json(run.evaluation_file(split, result.step), {"schema": RunDirectory.SCHEMA, **result.kept()})
    except PermissionError:
        return result
    return kept_evaluation(run, split, result.step) or result
