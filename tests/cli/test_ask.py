"""``glassformer ask``, and what else the command line does with questions: evaluate, data show, init_from, refusals."""

from __future__ import annotations

import re

import pytest

from glassformer.evaluation.abstaining import AbstainRule
from glassformer.experiment import train
from glassformer.foundation.errors import UsageError
from glassformer.knowledge.answers import AnswersConfig
from glassformer.knowledge.worlds import WorldConfig
from glassformer.run import load
from glassformer.runs.directory import RunDirectory

WORLD = {
    "data": {"set": {"kind": "world", "people": 60}},
    "tokenizer": "char",
    "objective": {"kind": "mixture", "parts": {"spans": {"share": 0.5}, "answers": {"share": 0.5}}, "judged_by": "answers"},
    "model": {"width": 16, "layers": 1, "heads": 2, "context": 96},
    "training": {"steps": 3, "batch_size": 8, "compile": False},
    "evaluation": {"every": 3},
}


@pytest.fixture(scope="module")
def world_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_CACHE", str(folder / "cache"))
        run = train(WORLD, out=folder / "run")
    return run.folder


@pytest.fixture(autouse=True)
def _cache(world_run, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(world_run.parent / "cache"))


def test_one_question_and_many(cli, world_run, tmp_path):
    questions = WorldConfig(people=60).files().questions("validation")
    one = cli("ask", world_run, "Where was Mimo Dado born?", "--beams", 3, "--json")
    assert one.code == 0
    (answer,) = one.json["answers"]
    assert set(answer) == {"question", "answer", "confidence", "abstained", "alternatives"}
    many = cli("ask", world_run, "--questions", questions, "--abstain-below", 1.0, "--json")
    assert len(many.json["answers"]) == 15
    assert (many.json["answered"], many.json["abstained"]) == (0, 15)
    written = tmp_path / "answers.txt"
    assert cli("ask", world_run, "--questions", questions, "--predictions", written).code == 0
    assert len(written.read_text().splitlines()) == 15
    assert "Where was Mimo Dado born? " in cli("ask", world_run, "Where was Mimo Dado born?").out


def test_abstaining_by_the_rule_of_the_evaluation(cli, world_run, monkeypatch):
    questions = WorldConfig(people=60).files().questions("validation")
    both = cli("ask", world_run, "--questions", questions, "--abstain", "--abstain-below", 0.5)
    assert "--abstain and --abstain-below are two rules" in both.sentence
    missing = cli("ask", world_run, "--questions", questions, "--abstain")  # three steps: no answer is right, so none is fitted
    assert missing.code == 2
    assert "has no rule for abstaining" in missing.sentence

    def rule(threshold: float) -> AbstainRule:
        names = ("confidence", "familiarity", "reading")
        return AbstainRule(names, (0.0,) * 3, (1.0,) * 3, (1.0,) * 3, 0.0, threshold, ("Born where, {name}?",), ("Dado", "Lee"))

    for threshold, abstained in ((-1e9, 0), (1e9, 15)):
        fitted = rule(threshold)
        monkeypatch.setattr(AnswersConfig, "abstain_rule", lambda self, details, fitted=fitted: fitted)
        many = cli("ask", world_run, "--questions", questions, "--abstain", "--json").json
        assert many["abstained"] == abstained
    one = cli("ask", world_run, many["answers"][0]["question"], "--abstain", "--json").json["answers"][0]
    assert one["score"] == pytest.approx(many["answers"][0]["score"], abs=1e-3)  # alone as among others


def test_predictions_of_an_evaluation_say_what_is_true(cli, world_run, tmp_path):
    written = tmp_path / "answers.tsv"
    assert cli("evaluate", world_run, "--predictions", written).code == 0
    header, *rows = [line.split("\t") for line in written.read_text().splitlines()]
    assert header == ["question", "answer", "confidence", "truth"]
    assert all(row[-1] for row in rows)


def test_evaluate_counts_answers_and_records_openings(cli, world_run):
    found = cli("evaluate", world_run, "--split", "test", "--json").json
    assert found["metrics"]["exact_match"]["n"] == 6
    assert found["unit"] == "question"
    assert {"most common answer", "London", "nearest name", "bag of letters", "open book", "untrained"} == set(
        found["baselines"]
    )
    assert [opening["split"] for opening in RunDirectory(world_run).openings()] == ["test"]
    shown = cli("evaluate", world_run).out
    assert "exact_match" in shown
    assert "sound_pull" in shown


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Where was Ann Lee born?\tX\nWhere was Bob Day born?\n", "line 2: there is no tab"),
        ("Where was Ann Lee born?\tX\tY\n", "line 1: the row has 3 columns"),
        ("Where was Żed born?\n", "line 1: 'Ż' is unknown"),
        (f"Where was {'Mimo ' * 30} born?\n", "line 1: the question takes"),
    ],
)
def test_bad_questions_are_a_sentence_and_nothing_is_written(cli, world_run, tmp_path, text, rule):
    file, out = tmp_path / "q.tsv", tmp_path / "out.txt"
    file.write_text(text)
    answer = cli("ask", world_run, "--questions", file, "--predictions", out)
    assert (answer.code, out.exists()) == (1, False)
    assert rule in answer.sentence
    assert str(file) in answer.sentence


def test_a_run_that_answers_nothing_says_so(cli, trained):
    answer = cli("ask", trained, "the cat?")
    assert answer.code == 2
    assert "objective=next-token answers no questions" in answer.sentence


def test_a_second_text_where_none_is_read(cli, world_run, tmp_path):
    answer = cli("ask", world_run, "Who?", "--pair", "Someone.")
    assert (answer.code, answer.sentence) == (2, "Error: This run takes one question at a time; drop --pair.")
    answer = cli("ask", world_run, "--questions", tmp_path / "many.tsv", "--pair", "Someone.")
    assert answer.code == 2
    assert answer.sentence.endswith("many.tsv has its own second texts; drop --pair.")


def test_a_question_or_a_file(cli, world_run, tmp_path):
    assert "Give a QUESTION" in cli("ask", world_run).sentence
    assert "not both" in cli("ask", world_run, "x?", "--questions", tmp_path / "q.tsv").sentence


def test_what_is_not_said_has_no_alternatives(cli, world_run):
    said = cli("ask", world_run, "Where was Mimo Dado born?", "--beams", 90, "--abstain-below", 1.0)
    assert re.fullmatch(r"Where was Mimo Dado born\? I don't know \(its best guess: \d+%\)", said.out.splitlines()[0])
    assert "or:" not in said.out


def test_what_python_gives_that_is_no_text(world_run):
    run = load(world_run)
    for given, rule in ((5, "not 5"), ({"a": 1}, "not {"), ([5], "5 is int"), (None, "not None")):
        with pytest.raises(UsageError, match=rule):
            run.ask(given)


def test_a_recipe_is_shown_by_its_rows(cli, tmp_path):
    found = cli("data", "show", "world-mixed", "--set", "data.set.people=60", "--count", 8, "--json").json
    assert len(found["rows"]) == 8
    assert any("<mask>" in row for row in found["rows"])
    assert any("(learned: " in row for row in found["rows"])


def test_a_parent_with_another_tokenizer_is_refused_and_nothing_is_written(cli, world_run, tmp_path):
    out = tmp_path / "child"
    words = ("train", "world-finetune", "--set", f"init_from={world_run}", "--set", "data.set.people=60", "--out", out)
    answer = cli(*words)
    assert (answer.code, out.exists()) == (2, False)
    assert "tokenizer" in answer.sentence


def test_from_one_run_to_the_next(cli, world_run, tmp_path):
    out = tmp_path / "child"
    changes = ["objective=answers", f"init_from={world_run}", "tokenizer=char", "data.set.people=60", "training.steps=2"]
    changes += ["model={width: 16, layers: 1, heads: 2, context: 96}"]
    answer = cli("train", "world-finetune", *(word for change in changes for word in ("--set", change)), "--out", out)
    assert answer.code == 0, answer.err
    (parent,) = RunDirectory(out).read_environment()["ancestry"]
    assert parent["run"] == str(world_run)
    assert "parent" in cli("evaluate", out, "--json").json["baselines"]


def test_two_runs_on_the_same_people(cli, world_run, trained):
    found = cli("evaluate", world_run, "--against", world_run, "--json").json["against"]
    assert (found["only_first"], found["only_second"], found["p"]) == (0, 0, 1.0)
    assert found["both"] + found["neither"] == 15
    assert "these two checkpoints" in cli("evaluate", world_run, "--against", world_run).out
    assert "does not count right answers" in cli("evaluate", trained, "--against", trained).sentence
