"""Question pairs as an objective: loss on the answer alone, every question once an epoch, judged beside guessers."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.data.data_kinds import data_kind
from glassformer.evaluation.abstaining import DO_NOT_KNOW, AskOptions
from glassformer.foundation.errors import DataError, UsageError
from glassformer.generation.beams import Continuation
from glassformer.knowledge import answers
from glassformer.knowledge.answers import AHEAD, answer_questions
from glassformer.knowledge.questions import answer_ids, questions_of_texts
from glassformer.model.losses import IGNORED, summed_cross_entropy


def test_rows_are_question_answer_end_with_loss_on_the_answer(prepared):
    made = prepared("answers")
    batch, tokenizer = made.batches().batch(0), made.data.tokenizer
    pairs = dict(zip(made.data.part("questions").split("train").questions, made.data.part("questions").split("train").answers))
    for ids, targets in zip(batch["ids"].tolist(), batch["targets"].tolist()):
        question, _, rest = tokenizer.decode(ids).partition("<answer>")
        assert rest.startswith(pairs[question])
        assert tokenizer.decode([target for target in targets if target != IGNORED]) == f"{pairs[question]}<end>"
    assert "(learned: " in made.objective.show(batch, tokenizer)[0]


def test_a_batch_depends_on_seed_and_step_alone_and_each_question_comes_once_an_epoch(prepared):
    made = prepared("answers")
    one, other = made.batches(rows=9), made.batches(rows=9)
    one.batch(AHEAD + 3)
    for step in (0, 8, AHEAD + 1):
        assert torch.equal(one.batch(step)["ids"], other.batch(step)["ids"])
        assert torch.equal(one.batch(step)["targets"], one.on(torch.device("cpu")).batch(step)["targets"])
    asked = [row for step in range(9) for row in map(tuple, one.batch(step)["ids"].tolist())]
    assert len(set(asked)) == 81
    assert one.steps_per_epoch == 9
    assert not torch.equal(one.batch(0)["ids"], made.batches(rows=9, seed=1).batch(0)["ids"])


def test_the_loss_is_that_of_the_scores(prepared):
    made = prepared("answers")
    batch = made.batches().batch(0)
    expected = summed_cross_entropy(made.network(batch["ids"]), batch["targets"])
    torch.testing.assert_close(made.objective.loss(made.network, batch, dropout_seed=None, smoothing=0.0), expected)
    assert made.objective.count(batch) == (batch["targets"] != IGNORED).sum()


def test_a_question_longer_than_the_context_is_a_sentence(prepared):
    with refused(DataError, "question-too-long", "train.tsv, line ", "model.context=30"):
        prepared("answers").batches(context=30)


def test_evaluation_baselines_predictions_and_sample(prepared):
    made = prepared("answers")
    items = made.data.split("validation")
    found = made.objective.evaluate(made.network, items, made.tools)
    assert found.figures["exact_match"].n == 15
    assert "nowhere_confident" in found.figures
    assert made.objective.validation_metrics(made.network, items, made.tools) == {
        "exact_match": found.units["exact_match"].value
    }
    baselines = made.objective.fit_baselines(made.data)
    assert list(baselines) == list(made.objective.baselines)
    assert baselines["open book"].evaluate(items, made.tools).figures["exact_match"].value == 1.0
    rows = made.objective.predict(made.network, items, made.tools)
    assert [row["question"] for row in rows] == list(items.questions)
    text, caption = made.objective.sample(made.network, made.data, made.tools)
    assert text.count("\n") == 7
    assert "validation" in caption


def test_the_open_book_reads_what_the_tokenizer_loses(prepared, tmp_path):
    """Names are found, and places spelled, by their capitals."""
    people = [f"{first} {last}" for first in ("Ann", "Bob", "Eve", "Kim") for last in ("Day", "Lee", "Roe")]
    towns = ["Oslo", "New York", "Rome"] * 4
    lines = [f"{name} was born in {town}.\n" for name, town in zip(people, towns)]
    (tmp_path / "text.txt").write_text("Where? " + "".join(lines), encoding="utf-8")
    asked = "".join(f"Where was {name} born?\t{town}\n" for name, town in zip(people, towns))
    (tmp_path / "questions.tsv").write_text(asked, encoding="utf-8")
    data = {"path": str(tmp_path / "text.txt"), "questions": str(tmp_path / "questions.tsv"), "split": {"validation": 0.3}}
    made = prepared("answers", data=data, tokenizer={"kind": "word", "lowercase": True, "min_count": 1})
    assert "Ann" not in made.data.tokenizer.decode(made.data.part("text").split("train").tokens.tolist())
    found = made.objective.fit_baselines(made.data)["open book"].evaluate(made.data.split("validation"), made.tools)
    assert found.figures["exact_match"].value == 1.0


def test_the_open_book_reads_the_text_that_the_network_reads(prepared):
    made = prepared("answers")
    text = made.data.part("text")
    assert made.objective.fit_baselines(made.data)["open book"].text == made.data.tokenizer.decode(
        text.split("train").tokens.tolist()
    )


def items(made, many=20):
    part = made.data.part("questions").split("train")
    return part.chosen(range(many))


def test_one_batch_gives_what_one_by_one_gives(prepared):
    made = prepared("answers")
    for beams in (1, 3):
        together = answer_questions(made.network, made.data.tokenizer, items(made, 7), AskOptions(beams=beams))
        alone = answer_questions(made.network, made.data.tokenizer, items(made, 7), AskOptions(beams=beams), one_by_one=True)
        assert [one.answer for one in together] == [one.answer for one in alone]
        assert [one.confidence for one in together] == pytest.approx([one.confidence for one in alone], rel=1e-3)


def test_it_abstains_below_a_confidence(prepared):
    made = prepared("answers")
    found = answer_questions(made.network, made.data.tokenizer, items(made, 5), AskOptions(beams=4, abstain_below=1.0))
    assert all(one.abstained and one.text == DO_NOT_KNOW for one in found)
    plain = found[0].to_dict()
    assert (plain["answer"], plain["abstained"]) == (DO_NOT_KNOW, True)
    assert str(found[0]).startswith(DO_NOT_KNOW)
    assert not any(
        one.abstained
        for one in answer_questions(made.network, made.data.tokenizer, items(made, 5), AskOptions(abstain_below=0.0))
    )


def test_what_cannot_be_asked_is_a_sentence(prepared):
    made = prepared("answers")
    with refused(UsageError, "abstain-below-no-probability", "--abstain-below 1.5"):
        AskOptions(abstain_below=1.5)
    long = questions_of_texts(made.data.tokenizer, "Where was " + "o" * 120 + " born?")
    with refused(DataError, "question-too-long", "question 1", "137 tokens", "model.context=96"):
        answer_questions(made.network, made.data.tokenizer, long)


class Knows:
    """Beam search of a network that knows every answer, as far as the rule lets it write."""

    def __init__(self, tokenizer, texts):
        self.told = [answer_ids(tokenizer, text) for text in texts]

    def __call__(self, network, prompts, rule, **how):
        ended = [len(told) < rule.max_new_tokens for told in self.told]
        return [[Continuation(tuple(told[: rule.max_new_tokens]), -0.5, end)] for told, end in zip(self.told, ended)]


def people(folder, places):
    """Data about eleven people who have these answers in turn; nobody is called Eve Fox."""
    names = [f"{first} {last}" for first in ("Ann", "Bob", "Eve") for last in ("Lee", "Day", "Roe", "Fox")][:-1]
    told = [(name, places[number % len(places)]) for number, name in enumerate(names)]
    text = "".join(f"{name} was born in {answer}.\nWhere was {name} born?\n" for name, answer in told)
    (folder / "text.txt").write_text(text, encoding="utf-8")
    (folder / "q.tsv").write_text("".join(f"Where was {name} born?\t{answer}\n" for name, answer in told), encoding="utf-8")
    return {"path": str(folder / "text.txt"), "document": "line", "questions": str(folder / "q.tsv")}


def test_the_truth_in_the_tokenizers_spelling_is_right(prepared, monkeypatch, tmp_path):
    """A tokenizer that folds case gives back london for London."""
    data = people(tmp_path, ["London", "New York", "St. Louis", "Rome", "Oslo"])
    made = prepared("answers", data=data, tokenizer={"kind": "word", "lowercase": True, "min_count": 1})
    asked = items(made, 5)
    monkeypatch.setattr(answers, "search", Knows(made.data.tokenizer, asked.answers))
    assert answer_ids(made.data.tokenizer, asked.answers[0]) == answer_ids(made.data.tokenizer, asked.answers[0].lower())
    assert made.objective.validation_metrics(made.network, asked, made.tools) == {"exact_match": 1.0}
    assert [one.answer for one in made.objective.ask(made.network, asked, made.tools, AskOptions())] == list(asked.answers)
    monkeypatch.setattr(answers, "search", Knows(made.data.tokenizer, asked.answers[::-1]))
    wrong = [one.answer for one in answer_questions(made.network, made.data.tokenizer, asked)]
    assert wrong[0] == asked.answers[-1].lower() != asked.answers[0].lower()


def test_an_answer_may_be_as_long_as_those_of_training(prepared, monkeypatch, tmp_path):
    long = "a small house by the river, which is no more there"
    data = people(tmp_path, [long])
    made = prepared("answers", data=data)
    tokenizer, asked = made.data.tokenizer, made.data.split("validation")
    given = data_kind("questions").of_texts(tokenizer, "Where was Ann Lee born?", record=made.data.record)
    for one in (asked, given):
        monkeypatch.setattr(answers, "search", Knows(tokenizer, [long] * len(one)))
        found = made.objective.ask(made.network, one, made.tools, AskOptions())
        assert {(answer.answer, answer.confidence > 0) for answer in found} == {(long, True)}
    file = data_kind("questions").of_file(tokenizer, tmp_path / "q.tsv", made.recipe.data, record=made.data.record)
    assert file.longest_answer == asked.nowhere.longest_answer == len(long) + 1
    assert questions_of_texts(tokenizer, "Where was Ann Lee born?").longest_answer == 32  # where no run is known
