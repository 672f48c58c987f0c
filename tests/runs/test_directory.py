"""A run's folder: names spelt once, used folders refused, damage said, beginnings that were killed cleared away."""

from __future__ import annotations

import os
import platform

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import RunError
from glassformer.runs.directory import RunDirectory, find_runs


@pytest.fixture
def run(tmp_path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def test_the_files_of_the_contract(run) -> None:
    files = (run.recipe_file, run.environment_file, run.metrics_file, run.tokenizer_file, run.report_file)
    assert [file.name for file in files] == [
        "recipe.yaml",
        "environment.json",
        "metrics.jsonl",
        "tokenizer.json",
        "report.html",
    ]
    assert run.checkpoint(70) == run.root / "checkpoints" / "step-70"


def test_the_recipe_there_and_back(run) -> None:
    recipe = {"model": {"width": 8, "norm": {"kind": "rms"}}, "seed": 3}
    run.write_recipe(recipe)
    assert run.read_recipe() == recipe
    assert run.recipe_file.read_text().startswith("schema: 1\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"schema: 2\nseed: 1\n", "has schema 2; this version reads schema 1"),
        (b"seed: 1\n", "has schema None"),
        (b"- 1\n", "has schema None"),
        (b"a: [", "was edited or damaged"),
        (b"a: \xff\xfe\n", "was edited or damaged"),
    ],
)
def test_a_damaged_recipe_is_a_sentence(run, content: bytes, words: str) -> None:
    run.root.mkdir()
    run.recipe_file.write_bytes(content)
    with pytest.raises(RunError, match=r"recipe\.yaml") as caught:
        run.read_recipe()
    assert words in str(caught.value)


def test_what_is_no_run(run) -> None:
    with refused(RunError, "not-a-run", "it does not exist"):
        run.require()
    run.root.mkdir()
    with refused(RunError, "not-a-run", "recipe.yaml"):
        run.read_recipe()


def test_a_used_folder_is_refused(run) -> None:
    run.refuse_if_used()
    run.root.mkdir()
    run.refuse_if_used()  # empty
    (run.root / "notes.txt").write_text("mine")
    with refused(RunError, "folder-not-empty", "--resume", "--out"):
        run.refuse_if_used()
    with refused(RunError, "folder-not-empty"):
        RunDirectory(run.root / "notes.txt").refuse_if_used()


def test_a_beginning_that_was_killed_is_cleared_away(run) -> None:
    run.clear_unfinished()  # nothing there
    run.write_environment({"threads": 1})
    run.tokenizer_file.write_text("{}")
    (run.root / ".recipe.yaml.abc.draft").write_text("half")
    run.clear_unfinished()
    assert list(run.root.iterdir()) == []


def test_other_peoples_files_are_left_alone(run) -> None:
    run.write_environment({"threads": 1})
    (run.root / "thesis.tex").write_text("mine")
    run.clear_unfinished()
    assert sorted(file.name for file in run.root.iterdir()) == ["environment.json", "thesis.tex"]


def test_a_run_is_never_cleared_away(run) -> None:
    run.write_environment({"threads": 1})
    run.write_recipe({"seed": 1})
    run.clear_unfinished()
    assert run.exists()
    assert run.environment_file.exists()


def test_steps_are_numbers_of_folders_only(run) -> None:
    assert run.steps() == []
    for name in ("step-10", "step-9", "step-x", ".step-8.draft-1", "step-", "other"):
        (run.checkpoints / name).mkdir(parents=True)
    (run.checkpoints / "step-7").write_text("a file")
    assert run.steps() == [9, 10]


def test_state_and_environment(run) -> None:
    assert run.read_state() == {"status": "unknown"}
    run.write_state("finished", step=7)
    assert run.read_state() == {"schema": 1, "status": "finished", "pid": os.getpid(), "step": 7}
    run.write_environment({"threads": 2})
    assert run.read_environment() == {"schema": 1, "threads": 2}


def test_openings_of_the_test_split(run) -> None:
    assert run.openings() == []
    run.root.mkdir()
    run.record_opening(step=5)
    with run.openings_file.open("a") as stream:
        stream.write('{"opened": "20')  # a process was killed here
    run.record_opening(step=7)
    assert [opening["step"] for opening in run.openings()] == [5, 7]
    assert all({"schema", "opened", "step"} <= set(opening) for opening in run.openings())


def test_finding_runs(tmp_path) -> None:
    trials = ("study/trials/base/seed-0", "study/tuning/base/point-0/seed-100")
    for place in ("a", "a/parent", "a/checkpoints", "b/c", *trials, ".hidden/run", "b/d/e"):
        RunDirectory(tmp_path / place).write_recipe({"seed": 1})
    (tmp_path / "file").write_text("")
    assert [str(run.root.relative_to(tmp_path)) for run in find_runs(tmp_path)] == ["a", "a/parent", "b/c", *trials]
    assert [run.root for run in find_runs(tmp_path / "b" / "c")] == [tmp_path / "b" / "c"]
    with refused(RunError, "not-a-folder", "absent"):
        find_runs(tmp_path / "absent")


def test_who_works_here_where_the_disk_has_no_locks(tmp_path, monkeypatch) -> None:
    run = RunDirectory(tmp_path)
    monkeypatch.setattr("glassformer.runs.directory.is_held", lambda file: None)
    assert not run.in_use()
    for text, expected in {
        f"{os.getpid()} {platform.node()}": True,
        f"999999999 {platform.node()}": False,
        f"{10**30} {platform.node()}": False,
        f"999999999 {platform.node()}-2": True,  # its lock file is all that can be known of it
    }.items():
        run.lock_file.write_text(text)
        assert run.in_use() is expected, text
