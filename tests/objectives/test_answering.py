"""Answers of a network: in one batch as one by one, with confidence, alternatives and abstention."""

from __future__ import annotations

import pytest

from glassformer.data.questions import questions_of_texts
from glassformer.foundation.errors import DataError, UsageError
from glassformer.objectives.answering import DO_NOT_KNOW, answer_questions


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
