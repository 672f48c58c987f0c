"""Answers of a network: in one batch as one by one, with confidence, alternatives and abstention."""

from __future__ import annotations

import pytest

from glassformer.data.data_kinds import data_kind
from glassformer.foundation.errors import DataError, UsageError
from glassformer.generation.beams import Continuation
from glassformer.knowledge import answering
from glassformer.knowledge.answering import DO_NOT_KNOW, answer_questions
from glassformer.knowledge.questions import answer_ids, questions_of_texts


def items(made, many=20):
    part = made.data.part("questions").split("train")
    return part.chosen(range(many))


def test_one_batch_gives_what_one_by_one_gives(prepared):
    made = prepared("answers")
    for beams in (1, 3):
        together = answer_questions(made.network, made.data.tokenizer, items(made), beams=beams)
        alone = answer_questions(made.network, made.data.tokenizer, items(made), beams=beams, one_by_one=True)
        assert [one.answer for one in together] == [one.answer for one in alone]
        assert [one.confidence for one in together] == pytest.approx([one.confidence for one in alone], rel=1e-3)


def test_it_abstains_below_a_confidence(prepared):
    made = prepared("answers")
    answers = answer_questions(made.network, made.data.tokenizer, items(made, 5), beams=4, abstain_below=1.0)
    assert all(one.abstained and one.said == DO_NOT_KNOW for one in answers)
    plain = answers[0].to_dict()
    assert (plain["answer"], plain["abstained"]) == (DO_NOT_KNOW, True)
    assert str(answers[0]).startswith(DO_NOT_KNOW)
    assert not any(
        one.abstained for one in answer_questions(made.network, made.data.tokenizer, items(made, 5), abstain_below=0.0)
    )


def test_what_cannot_be_asked_is_a_sentence(prepared):
    made = prepared("answers")
    with pytest.raises(UsageError, match=r"--abstain-below 1\.5 is no probability"):
        answer_questions(made.network, made.data.tokenizer, items(made), abstain_below=1.5)
    long = questions_of_texts(made.data.tokenizer, "Where was " + "o" * 120 + " born?")
    with pytest.raises(DataError, match=r"question 1: the question takes 137 tokens with its mark, but model\.context=96"):
        answer_questions(made.network, made.data.tokenizer, long)


class Knows:
    """Beam search of a network that knows every answer, as far as the rule lets it write."""

    def __init__(self, tokenizer, answers):
        self.told = [answer_ids(tokenizer, answer) for answer in answers]

    def __call__(self, network, prompts, rule, **how):
        ended = [len(told) < rule.max_new_tokens for told in self.told]
        return [[Continuation(tuple(told[: rule.max_new_tokens]), -0.5, end)] for told, end in zip(self.told, ended)]


def people(folder, answers):
    """Data about eleven people who have these answers in turn; nobody is called Eve Fox."""
    names = [f"{first} {last}" for first in ("Ann", "Bob", "Eve") for last in ("Lee", "Day", "Roe", "Fox")][:-1]
    told = [(name, answers[number % len(answers)]) for number, name in enumerate(names)]
    text = "".join(f"{name} was born in {answer}.\nWhere was {name} born?\n" for name, answer in told)
    (folder / "text.txt").write_text(text, encoding="utf-8")
    (folder / "q.tsv").write_text("".join(f"Where was {name} born?\t{answer}\n" for name, answer in told), encoding="utf-8")
    return {"path": str(folder / "text.txt"), "document": "line", "questions": str(folder / "q.tsv")}


def test_the_truth_in_the_tokenizers_spelling_is_right(prepared, monkeypatch, tmp_path):
    """A tokenizer that folds case gives back london for London."""
    data = people(tmp_path, ["London", "New York", "St. Louis", "Rome", "Oslo"])
    made = prepared("answers", data=data, tokenizer={"kind": "word", "lowercase": True, "min_count": 1})
    asked = items(made, 5)
    monkeypatch.setattr(answering, "search", Knows(made.data.tokenizer, asked.answers))
    assert answer_ids(made.data.tokenizer, asked.answers[0]) == answer_ids(made.data.tokenizer, asked.answers[0].lower())
    assert made.objective.validation_metrics(made.network, asked, made.tools) == {"exact_match": 1.0}
    assert [one.answer for one in made.objective.ask(made.network, asked, made.tools)] == list(asked.answers)
    monkeypatch.setattr(answering, "search", Knows(made.data.tokenizer, asked.answers[::-1]))
    wrong = [one.answer for one in answer_questions(made.network, made.data.tokenizer, asked)]
    assert wrong[0] == asked.answers[-1].lower() != asked.answers[0].lower()


def test_an_answer_may_be_as_long_as_those_of_training(prepared, monkeypatch, tmp_path):
    long = "a small house by the river, which is no more there"
    data = people(tmp_path, [long])
    made = prepared("answers", data=data)
    tokenizer, asked = made.data.tokenizer, made.data.split("validation")
    given = data_kind("questions").of_texts(tokenizer, "Where was Ann Lee born?", record=made.data.record)
    for one in (asked, given):
        monkeypatch.setattr(answering, "search", Knows(tokenizer, [long] * len(one)))
        found = made.objective.ask(made.network, one, made.tools)
        assert {(answer.answer, answer.confidence > 0) for answer in found} == {(long, True)}
    file = data_kind("questions").of_file(tokenizer, tmp_path / "q.tsv", made.recipe.data, record=made.data.record)
    assert file.longest_answer == asked.nowhere.longest_answer == len(long) + 1
    assert questions_of_texts(tokenizer, "Where was Ann Lee born?", record={}).longest_answer == 32  # of runs before
