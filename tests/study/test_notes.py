"""What must be known beside the verdict: overlapping text, runs that ended early, real cost."""

from __future__ import annotations

from glassformer.foundation.files import read_json, write_json
from glassformer.runs.directory import RunDirectory
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
    told = "12 of 60 documents of validation (20.0%) also occur in train: figures on it are flattered."
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
    assert any("Runs ended early (patience), at different steps: base at 24 to 24 of 96" in note for note in early.notes)
    assert "Runs ended at different steps (patience)" in early.verdicts[0].sentence


def test_few_tuning_seeds_are_named(made_up, tmp_path):
    tune = {"grid": {"training.lr": [0.1, 0.2]}, "seeds": 2}
    study = made_up.study(tmp_path / "study", LOSSES, tune=tune)
    assert any("Tuned on 2 seeds only" in note for note in study.notes)


def test_a_confirmation_says_whether_it_holds(made_up, tmp_path):
    held = made_up.study(tmp_path / "held", LOSSES, confirms="studies/first")
    assert held.notes[0] == "alibi of studies/first is confirmed, on fresh seeds and on the validation text."
    lost = made_up.study(tmp_path / "lost", {"base": GOOD, "alibi": [one + 0.5 for one in GOOD]}, confirms="studies/first")
    assert "alibi of studies/first is not confirmed (worse)" in lost.notes[0]
