"""What must be known beside the verdict: overlapping text, runs that ended early, real cost."""

from __future__ import annotations

import shutil
from dataclasses import replace

from glassformer.foundation.files import read_json, write_json
from glassformer.runs.directory import RunDirectory
from glassformer.study.reporting.study_notes import conditions_of, remarks_of_trials
from glassformer.study.study import Study

GOOD = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]
LOSSES = {"base": [one + 0.5 for one in GOOD], "alibi": GOOD}
OVERLAP = "12 of 60 documents of validation (20.0%) also occur in train, for example a, as in b: figures are flattered by that."


def with_data_notes(study: Study, *notes: str) -> Study:
    for result in study.finished("base"):
        run = RunDirectory(study.directory.trial(result.trial))
        run.write_environment({**run.read_environment(), "data": {"source": "letters", "sha256": "ab", "notes": list(notes)}})
    return Study.load(study.folder)


def test_overlapping_documents_are_said_beside_the_verdict(made_up, tmp_path):
    study = with_data_notes(made_up.study(tmp_path / "study", LOSSES), OVERLAP, "Another note.")
    told = "12 of 60 documents of validation (20.0%) also occur in train: figures on it are too optimistic."
    assert told in study.verdicts[0].sentence
    assert OVERLAP in study.notes
    assert study.notes.count("Another note.") == 1
    assert "Another note." not in study.verdicts[0].sentence


def test_runs_that_ended_early_cost_what_they_took(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", LOSSES)
    full = {row["variant"]: row["flops"] for row in study.table}
    assert not any("patience" in note for note in study.notes)
    book = read_json(study.directory.variants_file)
    for facts in book["variants"].values():
        facts["steps"] = 96  # every run ended at 24
    write_json(study.directory.variants_file, book)
    early = Study.load(study.folder)
    assert {row["variant"]: row["flops"] for row in early.table} == full
    assert any("Runs stopped early (patience): base at 24 to 24 of 96" in note for note in early.notes)
    assert "Runs stopped at different steps (patience)" in early.verdicts[0].sentence


def with_ancestry(study: Study, *ancestry: dict) -> Study:
    """Its alibi goes on from other runs, in a quarter of the steps."""
    for result in study.finished("alibi"):
        run = RunDirectory(study.directory.trial(result.trial))
        run.write_environment({**run.read_environment(), "ancestry": list(ancestry)})
    book = read_json(study.directory.variants_file)
    book["variants"]["alibi"]["tokens"] = 420
    write_json(study.directory.variants_file, book)
    return Study.load(study.folder)


def test_what_a_parent_was_trained_on_is_said(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", LOSSES)
    assert not any("is trained on" in note for note in study.notes)
    told = "alibi is trained on 420 tokens after a parent trained on 65,536 tokens and the baseline on 1,680 tokens."
    recorded = with_ancestry(study, {"run": "gone", "step": 32, "tokens": 65_536})
    assert told in recorded.notes
    recorded.write()
    shutil.rmtree(study.folder / "trials")
    assert [note for note in Study.load(study.folder).notes if "is trained on" in note] == [told]


def test_parents_of_unknown_length_are_counted_in_steps(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", LOSSES)
    imported = [{"run": "gone", "step": 32, "tokens": None}, {"run": "first", "step": 8, "tokens": 100}]
    assert any("after 2 parents in sequence trained for 40 steps and" in note for note in with_ancestry(study, *imported).notes)


def test_few_tuning_seeds_are_named(made_up, tmp_path):
    tune = {"grid": {"training.lr": [0.1, 0.2]}, "seeds": 2}
    study = made_up.study(tmp_path / "study", LOSSES, tune=tune)
    assert any("Tuned on 2 seeds only" in note for note in study.notes)


def test_a_confirmation_says_whether_it_holds(made_up, tmp_path):
    held = made_up.study(tmp_path / "held", LOSSES, confirms="studies/first")
    assert held.notes[0] == "alibi of studies/first is confirmed, on new seeds and on the validation text."
    lost = made_up.study(tmp_path / "lost", {"base": GOOD, "alibi": [one + 0.5 for one in GOOD]}, confirms="studies/first")
    assert "alibi of studies/first is not confirmed (worse)" in lost.notes[0]


def test_text_that_does_not_decide_flatters_no_verdict(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", LOSSES, split="test")
    for file in study.folder.rglob("validation-step-24.json"):
        file.rename(file.with_name("test-step-24.json"))
    study = with_data_notes(Study.load(study.folder), OVERLAP)
    assert len(study.finished("base")) == 6
    assert not any("too optimistic" in remark for remark in remarks_of_trials(study))
    judged = with_data_notes(made_up.study(tmp_path / "other", LOSSES), OVERLAP)
    assert any("too optimistic" in remark for remark in remarks_of_trials(judged))


def test_what_a_change_sets_is_asked_for_where_the_plan_sets_it_too(made_up, tmp_path):
    changes = [{"name": "one", "set": {"model.init": "zero_outputs"}}, {"name": "two", "set": {"model.norm": "rms"}}]
    losses = {"base": [1.5] * 6, "one": [1.4] * 6, "two": [1.4] * 6}
    study = made_up.study(tmp_path / "s", losses, changes=changes, set={"model.init": "depth_scaled"})
    book = study.book.variants
    for name in losses:
        book[name] = replace(book[name], start={"w 64x64": [0.02 if name == "base" else 0.2]})
    starts = {name: [one.what for one in conditions_of(study, name) if one.what == "start"] for name in ("one", "two")}
    assert starts == {"one": [], "two": ["start"]}
