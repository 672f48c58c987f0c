"""The parent of a trial: trained once for all that start from it, the same bits as one trained in the trial's own folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.experiment import train
from glassformer.foundation.files import read_json
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.recipe import load_recipe
from glassformer.runs.directory import RunDirectory
from glassformer.study.compare import compare
from glassformer.study.running import parents
from glassformer.study.running.parents import provide_parent
from glassformer.study.running.trial_store import TrialStore


@pytest.fixture(autouse=True)
def _empty_store(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def trained_here(monkeypatch) -> list[Path]:
    """The folders in which a parent was really trained."""
    real, seen = parents.train, list[Path]()

    def noted(recipe: Any, *, out: Path, **more: Any) -> Any:
        seen.append(out)
        return real(recipe, out=out, **more)

    monkeypatch.setattr(parents, "train", noted)
    return seen


def weights(folder: Path) -> str:
    run = RunDirectory(folder)
    return str(read_json(run.checkpoint(run.steps()[-1]) / "manifest.json")["sha256"]["model.safetensors"])


def child(tiny_file: Path, **changes: Any) -> Any:
    return load_recipe(tiny_file, {"init_from": str(tiny_file), **changes})


def test_trials_that_differ_in_how_they_go_on_share_their_parent(tiny_file, tmp_path, trained_here) -> None:
    for number, rate in enumerate((0.01, 0.02, 0.03)):
        provide_parent(child(tiny_file, **{"training.lr": rate}), RunDirectory(tmp_path / str(number)))
    assert trained_here == [tmp_path / "0" / "parent"]
    assert len({weights(tmp_path / str(number) / "parent") for number in range(3)}) == 1


def test_it_is_the_parent_that_a_run_of_its_own_would_train(tiny_file, tmp_path) -> None:
    for name in ("first", "taken"):
        provide_parent(child(tiny_file), RunDirectory(tmp_path / name))
    for name in ("alone", "first", "taken"):
        train(child(tiny_file), out=tmp_path / name, resume="or begin", threads=1)
    assert weights(tmp_path / "taken" / "parent") == weights(tmp_path / "alone" / "parent")
    assert weights(tmp_path / "taken") == weights(tmp_path / "first") == weights(tmp_path / "alone")


def test_another_seed_or_model_has_a_parent_of_its_own(tiny_file, tmp_path, trained_here) -> None:
    for number, changes in enumerate(({}, {"seed": 7}, {"model.width": 24})):
        provide_parent(child(tiny_file, **changes), RunDirectory(tmp_path / str(number)))
    assert len(trained_here) == 3


def test_a_parent_that_was_begun_in_the_folder_goes_on_there(tiny_file, tmp_path, trained_here) -> None:
    (tmp_path / "run" / "parent").mkdir(parents=True)
    provide_parent(child(tiny_file), RunDirectory(tmp_path / "run"))
    assert trained_here == []


def test_a_damaged_one_is_trained_again(tiny_file, tmp_path, trained_here) -> None:
    provide_parent(child(tiny_file), RunDirectory(tmp_path / "first"))
    for entry in TrialStore().entries():
        next(Path(entry["folder"]).glob("checkpoints/*/model.safetensors")).write_bytes(b"x")
    provide_parent(child(tiny_file), RunDirectory(tmp_path / "second"))
    assert len(trained_here) == 2
    assert weights(tmp_path / "first" / "parent") == weights(tmp_path / "second" / "parent")


def test_a_parent_is_not_taken_for_a_trial(tiny_file, tmp_path) -> None:
    """It has no evaluation, so a study of the same recipe trains its own."""
    provide_parent(child(tiny_file), RunDirectory(tmp_path / "run"))
    study = compare(tiny_file, vary=["model.positions=none"], seeds=2, on="inline", out=tmp_path / "study")
    assert len(study.results["base"]) == 2


def test_the_points_of_a_grid_share_it_in_a_study(recipe, tmp_path, trained_here) -> None:
    file = tmp_path / "learns.yaml"
    file.write_text(dump_yaml(recipe), encoding="utf-8")
    plan = {
        "base": str(file),
        "set": {"init_from": str(file)},
        "changes": [{"name": "warm", "set": {"training.schedule": {"kind": "linear", "warmup": 2}}}],
        "tune": {"grid": {"training.lr": [0.01, 0.02]}, "seeds": 1},
        "seeds": 2,
    }
    compare(plan, on="inline", out=tmp_path / "study")
    assert len(trained_here) == 3  # one tuning seed and two others, for two variants of two points each
