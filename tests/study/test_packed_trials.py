"""Trials that travel: packed without weights, added elsewhere, judged alike; damage and other studies are refused."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import RunError, UsageError
from glassformer.runs.directory import RunDirectory
from glassformer.study.compare import compare
from glassformer.study.directory import StudyDirectory
from glassformer.study.packed_trials import add, pack
from glassformer.study.study import Study

VARY = {"model.positions": ["none"]}


def small(text_file: Path) -> dict[str, Any]:
    return {
        "data": {"path": str(text_file), "document": "line", "split": {"validation": 0.2}},
        "tokenizer": "char",
        "model": {"width": 12, "layers": 1, "heads": 3, "context": 7},
        "training": {"steps": 6, "batch_size": 4, "lr": 0.01, "device": "cpu", "precision": "float32"},
        "checkpoint": {"every": 3},
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Study:
    """A finished study of two variants by two seeds."""
    return compare(small(text_file), VARY, seeds=2, out=tmp_path_factory.mktemp("studies") / "whole", on="inline", store=False)


@pytest.fixture
def packed(whole: Study, tmp_path: Path) -> Path:
    file = tmp_path / "trials.json.gz"
    assert pack(StudyDirectory(whole.folder), file) == 4
    return file


def rewritten(file: Path, change: Any) -> Path:
    document = json.loads(gzip.decompress(file.read_bytes()))
    change(document)
    other = file.with_name("changed.json")
    other.write_text(json.dumps(document))
    return other


def test_a_new_folder_becomes_the_study_and_gives_its_verdicts(whole: Study, packed: Path, tmp_path: Path) -> None:
    added = add(StudyDirectory(tmp_path / "there"), packed)
    assert (len(added.new), added.known, added.different) == (4, [], [])
    there = compare(tmp_path / "there", on="inline", store=False)  # nothing is left to train
    assert [one.to_dict() for one in there.verdicts] == [one.to_dict() for one in whole.verdicts]
    assert not list((tmp_path / "there").rglob("*.safetensors"))
    assert packed.stat().st_size < 4 * 10_000
    again = add(StudyDirectory(tmp_path / "there"), packed)
    assert (again.new, len(again.known), again.different) == ([], 4, [])


def test_a_study_begun_here_is_finished_there(whole: Study, packed: Path, tmp_path: Path) -> None:
    half = rewritten(packed, lambda document: document["trials"].pop(next(iter(document["trials"]))))
    folder = tmp_path / "there"
    assert len(add(StudyDirectory(folder), half).new) == 3
    finished = compare(folder, on="inline", store=False)
    assert [one.to_dict() for one in finished.verdicts] == [one.to_dict() for one in whole.verdicts]
    assert len(list(folder.rglob("model.safetensors"))) > 0  # of the one that was trained there


def test_values_that_differ_are_named_and_ours_stay(whole: Study, packed: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole.folder, tmp_path / "own"))

    def other_value(document: dict[str, Any]) -> None:
        record = next(iter(document["trials"].values()))
        name = next(name for name in record["files"] if name.startswith("evaluations/"))
        evaluation = json.loads(record["files"][name])
        evaluation["metrics"]["loss"]["value"] += 0.5
        record["files"][name] = json.dumps(evaluation)
        record["checksum"] = fingerprint(record["files"])

    added = add(StudyDirectory(folder), rewritten(packed, other_value))
    assert (added.new, len(added.known), len(added.different)) == ([], 3, 1)
    assert [one.to_dict() for one in Study(StudyDirectory(folder)).verdicts] == [one.to_dict() for one in whole.verdicts]


@pytest.mark.parametrize("key", ["code_sha256", "torch", "precision"])
def test_other_code_or_another_kind_of_machine_is_refused(whole: Study, packed: Path, tmp_path: Path, key: str) -> None:
    def elsewhere(document: dict[str, Any]) -> None:
        for record in document["trials"].values():
            record["files"]["environment.json"] = json.dumps({**json.loads(record["files"]["environment.json"]), key: "other"})
            record["checksum"] = fingerprint(record["files"])

    folder = Path(shutil.copytree(whole.folder, tmp_path / "own"))
    with refused(UsageError, "other-kind", "other"):
        add(StudyDirectory(folder), rewritten(packed, elsewhere))


def test_damage_foreign_files_and_other_studies_are_refused(packed: Path, text_file: Path, tmp_path: Path) -> None:
    def damaged(document: dict[str, Any]) -> None:
        next(iter(document["trials"].values()))["files"]["state.json"] += " "

    def outside(document: dict[str, Any]) -> None:
        record = next(iter(document["trials"].values()))
        record["files"]["../../../stolen.txt"] = "x"
        record["checksum"] = fingerprint(record["files"])

    def out_of_the_folder(document: dict[str, Any]) -> None:
        document["trials"]["trials/../.."] = document["trials"].popitem()[1]

    for change, reason in ((damaged, "damaged"), (outside, "foreign-file"), (out_of_the_folder, "foreign-file")):
        with refused(RunError, reason):
            add(StudyDirectory(tmp_path / "there"), rewritten(packed, change))
    assert not list(tmp_path.rglob("stolen.txt"))
    assert not (tmp_path / "there").exists()  # nothing is written before all of it was checked
    other = tmp_path / "other"
    recipe = small(text_file)
    recipe["model"]["width"] = 24
    compare(recipe, VARY, seeds=2, out=other, on="inline", store=False)
    with refused(UsageError, "other-study"):
        add(StudyDirectory(other), packed)
    (tmp_path / "text.json").write_text("{}")
    with refused(RunError, "damaged"):
        add(StudyDirectory(tmp_path / "there"), tmp_path / "text.json")


def test_a_trial_without_weights_says_so(packed: Path, tmp_path: Path) -> None:
    add(StudyDirectory(tmp_path / "there"), packed)
    run = next(RunDirectory(state.parent) for state in (tmp_path / "there").rglob("state.json"))
    assert run.steps() == []
    assert run.read_state()["status"] == "finished"
