"""Where a run goes, what may change when it goes on, and what its folder says when it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glassformer.foundation.errors import Diverged, RunError
from glassformer.lifecycle import default_folder, ending_recorded, refuse_nothing_to_resume
from glassformer.runs.directory import RunDirectory
from glassformer.training.signals import StopSignal


def test_where_a_run_goes_unless_told(tiny_file, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_folder(tiny_file, resume=False) == Path("runs/tiny")
    assert default_folder(tiny_file, resume=True) == Path("runs/tiny")
    for name in ("tiny", "tiny-2"):
        os.makedirs(f"runs/{name}")
    assert default_folder("recipes/tiny.yaml", resume=False) == Path("runs/tiny-3")
    assert default_folder("tiny", resume=True) == Path("runs/tiny-2")
    assert default_folder({"data": {}}, resume=False) == Path("runs/run")


def test_a_mistyped_folder_is_nothing_to_resume(tmp_path) -> None:
    run = RunDirectory(tmp_path / "first")
    run.write_recipe({"seed": 1})
    with pytest.raises(RunError, match="Did you mean 'first'"):
        refuse_nothing_to_resume(RunDirectory(tmp_path / "frist"))
    refuse_nothing_to_resume(run)


def test_however_it_ends_the_folder_says_so(tmp_path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.write_recipe({"seed": 1})
    run.write_state("running", step=0)
    with pytest.raises(Diverged), ending_recorded(run, StopSignal()):
        raise Diverged("the loss is nan")
    assert (run.read_state()["status"], run.read_state()["reason"]) == ("diverged", "the loss is nan")
