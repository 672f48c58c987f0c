"""Evaluations in their files: what was kept comes back, and only as that of its own step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from glassformer.evaluation.results import save_evaluation, saved_evaluation
from glassformer.run import load


def test_what_was_kept_comes_back(trained: Path, tmp_path: Path) -> None:
    run = load(shutil.copytree(trained, tmp_path / "run"))
    result = run.evaluate()
    assert result.step is not None
    kept = save_evaluation(run.directory, "validation", result)
    again = saved_evaluation(run.directory, "validation", result.step)
    assert again is not None
    assert again.loss == kept.loss == result.loss
    assert saved_evaluation(run.directory, "validation", result.step + 1) is None


def test_a_file_under_the_name_of_another_step_is_not_taken(trained: Path, tmp_path: Path) -> None:
    run = load(shutil.copytree(trained, tmp_path / "run"))
    result = run.evaluate()
    assert result.step is not None
    save_evaluation(run.directory, "validation", result)
    file = run.directory.evaluation_file("validation", result.step)
    file.rename(run.directory.evaluation_file("validation", result.step + 5))
    assert saved_evaluation(run.directory, "validation", result.step + 5) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_of_a_run_that_may_only_be_read_it_is_given_as_it_is(trained: Path, tmp_path: Path) -> None:
    run = load(shutil.copytree(trained, tmp_path / "run"))
    result = run.evaluate()
    run.folder.chmod(0o555)
    assert save_evaluation(run.directory, "validation", result) is result
