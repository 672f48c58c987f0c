"""Trials that travel: packed without weights, added elsewhere, judged alike; damage and other studies are refused."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from glassformer.cli.main import run
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import RunError, UsageError
from glassformer.runs.directory import RunDirectory
from glassformer.study.compare import compare, run_sizes
from glassformer.study.directory import StudyDirectory
from glassformer.study.packed_trials import add, pack
from glassformer.study.planning.planned_study import plan_studies
from glassformer.study.running.execution import Execution
from glassformer.study.several_studies import SetStudy, SizeStudy
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
    assert pack(whole.folder, file) == 4
    return file


def rewritten(file: Path, change: Any) -> Path:
    document = json.loads(gzip.decompress(file.read_bytes()))
    change(document)
    other = file.with_name("changed.json")
    other.write_text(json.dumps(document))
    return other


def test_a_new_folder_becomes_the_study_and_gives_its_verdicts(whole: Study, packed: Path, tmp_path: Path) -> None:
    added = add(tmp_path / "there", packed)
    assert (len(added.new), added.known, added.different) == (4, [], [])
    there = compare(tmp_path / "there", on="inline", store=False)  # nothing is left to train
    assert [one.to_dict() for one in there.verdicts] == [one.to_dict() for one in whole.verdicts]
    assert not list((tmp_path / "there").rglob("*.safetensors"))
    assert packed.stat().st_size < 4 * 10_000
    again = add(tmp_path / "there", packed)
    assert (again.new, len(again.known), again.different) == ([], 4, [])


def test_a_study_begun_here_is_finished_there(whole: Study, packed: Path, tmp_path: Path) -> None:
    half = rewritten(packed, lambda document: document["trials"].pop(next(iter(document["trials"]))))
    folder = tmp_path / "there"
    assert len(add(folder, half).new) == 3
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

    added = add(folder, rewritten(packed, other_value))
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
        add(folder, rewritten(packed, elsewhere))


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
            add(tmp_path / "there", rewritten(packed, change))
    assert not list(tmp_path.rglob("stolen.txt"))
    assert not (tmp_path / "there").exists()  # nothing is written before all of it was checked
    other = tmp_path / "other"
    recipe = small(text_file)
    recipe["model"]["width"] = 24
    compare(recipe, VARY, seeds=2, out=other, on="inline", store=False)
    with refused(UsageError, "other-study"):
        add(other, packed)
    (tmp_path / "text.json").write_text("{}")
    with refused(RunError, "damaged"):
        add(tmp_path / "there", tmp_path / "text.json")


def test_a_trial_without_weights_says_so(packed: Path, tmp_path: Path) -> None:
    add(tmp_path / "there", packed)
    run = next(RunDirectory(state.parent) for state in (tmp_path / "there").rglob("state.json"))
    assert run.steps() == []
    assert run.read_state()["status"] == "finished"


def run_at_sizes(text_file: Path, out: Path) -> SizeStudy:
    sizes = {"small": {"model.width": 12, "training.lr": 0.01}, "large": {"model.width": 18, "training.lr": 0.005}}
    changes = [{"name": "none", "set": {"model.positions": "none"}}]
    plan = {"base": small(text_file), "changes": changes, "seeds": 2, "sizes": sizes}
    return run_sizes(plan_studies(plan, out=out), Execution(on="inline", store=False))


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> SizeStudy:
    """A finished study of two variants by two seeds at two sizes."""
    return run_at_sizes(text_file, tmp_path_factory.mktemp("studies") / "sizes")


@pytest.fixture
def file(sizes: SizeStudy, tmp_path: Path) -> Path:
    file = tmp_path / "sizes.json.gz"
    assert pack(sizes.folder, file) == 8
    return file


def test_a_new_folder_becomes_the_studies_at_all_sizes(sizes: SizeStudy, file: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    added = add(there, file)
    assert (len(added.new), added.known, added.different) == (8, [], [])
    assert "large/trials/base/seed-0" in added.new
    assert (SizeStudy.load(there).rate, list(SizeStudy.load(there).studies)) == (sizes.rate, ["small", "large"])
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    again = add(there, file)
    assert (again.new, len(again.known), again.different) == ([], 8, [])
    assert {path: path.read_bytes() for path in there.rglob("*") if path.is_file()} == before


def test_what_is_missing_is_run_there(sizes: SizeStudy, file: Path, text_file: Path, tmp_path: Path) -> None:
    def stopped(document: dict[str, Any]) -> None:
        """In the middle of the first size; the second has not begun."""
        del document["studies"]["large"]
        del document["studies"]["small"]["trials"]["trials/none/seed-1"]

    there = tmp_path / "there"
    assert len(add(there, rewritten(file, stopped)).new) == 3
    assert pack(there, tmp_path / "again.json") == 3
    found = run_at_sizes(text_file, there)
    assert [one.to_dict() for one in found.trends] == [one.to_dict() for one in sizes.trends]
    trained = {file.relative_to(there).parts[:4] for file in there.rglob("model.safetensors")}
    assert len(trained) == 5
    assert ("small", "trials", "none", "seed-1") in trained
    added = add(there, file)
    assert (added.new, len(added.known), added.different) == ([], 8, [])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda several: several["large"]["trials"]["trials/base/seed-0"]["files"].popitem(), "damaged"),
        (lambda several: several["large"]["trials"].update({"trials/../..": several["small"]["trials"]}), "foreign-file"),
        (lambda several: several["large"]["study"].clear(), "damaged"),
        (lambda several: several["large"]["study"].update({"variants.json": "{"}), "damaged"),
        (lambda several: several["large"]["study"].update({"plan.yaml": "recipes: {}"}), "not-a-begun-plan"),
        (lambda several: several["large"].pop("trials"), "damaged"),
        (lambda several: several.update(stolen=several["large"]), "foreign-file"),
    ],
)
def test_damage_in_one_of_them_is_refused_before_any_is_written(
    file: Path, tmp_path: Path, damage: Callable[[Any], object], reason: str
) -> None:
    changed = rewritten(file, lambda document: damage(document["studies"]))
    with refused(RunError, reason):
        add(tmp_path / "there", changed)
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("change", [{"file": "plan.yaml"}, {"file": ["a"]}, {"names": []}, {"names": 2}, {"rate": "\ud800"}])
def test_a_damaged_list_is_refused(file: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    with refused(RunError, "damaged"):
        add(tmp_path / "there", rewritten(file, lambda document: document["list"].update(change)))
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("name", ["../out", "..", ".", "", "a/b", "/dev/null/out", "sizes.json", "a\0b", "\ud800", 256 * "x"])
def test_a_name_that_leads_elsewhere_is_refused(file: Path, tmp_path: Path, name: str) -> None:
    def renamed(document: dict[str, Any]) -> None:
        document["list"]["names"][1] = name
        document["studies"][name] = document["studies"].pop("large")

    changed, before = rewritten(file, renamed), sorted(tmp_path.rglob("*"))
    with refused(RunError, "damaged"):
        add(tmp_path / "there", changed)
    assert sorted(tmp_path.rglob("*")) == before


def test_one_study_is_not_several(file: Path, packed: Path, tmp_path: Path) -> None:
    single, several = tmp_path / "single", tmp_path / "several"
    add(single, packed)
    add(several, file)
    before = sorted(tmp_path.rglob("*"))
    for folder, other in ((single, file), (several, packed)):
        with refused(UsageError, "one-or-several"):
            add(folder, other)
    for change in ({"names": ["small", "large", "huge"]}, {"rate": "another"}):
        with refused(UsageError, "other-study"):
            add(several, rewritten(file, lambda document, change=change: document["list"].update(change)))
    (tmp_path / "changed.json").unlink()
    assert sorted(tmp_path.rglob("*")) == before


def test_another_study_at_one_size_is_refused_before_any_is_written(file: Path, packed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    add(folder / "large", packed)  # of the small width
    before = sorted(folder.rglob("*"))
    with refused(UsageError, "other-study"):
        add(folder, file)
    assert sorted(folder.rglob("*")) == before


def test_sets_by_the_command(sets: SetStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, there = tmp_path / "sets.json.gz", tmp_path / "there"
    trials = 3 * 3 * 6
    assert run(["study", "pack", str(sets.folder), str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trials"] == trials
    assert run(["study", "add", str(there), str(file), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["new"]) == trials
    assert [one.to_dict() for one in SetStudy.load(there).verdicts] == [one.to_dict() for one in sets.verdicts]
