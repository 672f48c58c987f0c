"""A network and questions -> answers with confidence: the probability of the whole answer including its end token.

Questions are answered in batches with a KV cache (generation/beams.py). Below ``abstain_below`` the answer is "I don't know".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import UsageError
from glassformer.generation.beams import BeamRule, Continuation, search, search_one
from glassformer.knowledge.answer_metrics import GivenAnswers
from glassformer.knowledge.questions import Questions
from glassformer.objectives.spans import ANSWER, END

AT_ONCE = 512
"""Questions per batch."""

DO_NOT_KNOW = "I don't know"


@dataclass(frozen=True)
class Answer:
    """A network's answer to one question. ``alternatives``: the next most probable answers, with beam search."""

    question: str
    answer: str
    confidence: float
    abstained: bool = False
    alternatives: tuple[tuple[str, float], ...] = ()
    score: float | None = None
    """The combined score that decided whether to abstain, if a rule was used."""

    @property
    def said(self) -> str:
        """The answer, or "I don't know"."""
        return DO_NOT_KNOW if self.abstained else self.answer

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; an abstention has no answer, but a confidence."""
        others = [{"answer": text, "confidence": confidence} for text, confidence in self.alternatives]
        return {
            "question": self.question,
            "answer": self.said,
            "confidence": self.confidence,
            "abstained": self.abstained,
            "alternatives": others,
            **({} if self.score is None else {"score": self.score}),
        }

    def __str__(self) -> str:
        return f"{self.said} ({self.confidence:.0%})"


def answer_questions(
    network: Any,
    tokenizer: Tokenizer,
    questions: Questions,
    *,
    beams: int = 1,
    abstain_below: float | None = None,
    one_by_one: bool = False,
) -> list[Answer]:
    """An answer to each question. ``one_by_one``: by the reference implementation, without batching and without a cache.

    A right answer gets the spelling of the reference answer, since a tokenizer may fold case.
    """
    if abstain_below is not None and not 0 <= abstain_below <= 1:
        raise UsageError(f"--abstain-below {abstain_below} is no probability; give a number from 0 to 1.")
    answer, end = tokenizer.mark_id(ANSWER), tokenizer.mark_id(END)
    first_mark = tokenizer.size - len(tokenizer.marks)
    banned = [token_id for token_id in range(first_mark, tokenizer.size) if token_id != end]
    encoded = questions.encoded(tokenizer)
    prompts = [[*asked, answer] for asked, _ in encoded]
    for place, prompt in enumerate(prompts):
        if len(prompt) > network.dims.context:
            raise questions.wrong(
                place,
                f"the question takes {len(prompt)} tokens with its mark, but model.context={network.dims.context}; shorten it.",
            )
    rule = BeamRule(end_id=end, max_new_tokens=questions.longest_answer, beams=beams, banned=banned)
    if one_by_one:
        found = [search_one(network, prompt, rule) for prompt in prompts]
    else:
        found = search(network, prompts, rule, batch_size=AT_ONCE)
    answers = [_answer(question, one, tokenizer, abstain_below) for question, one in zip(questions.questions, found)]
    if questions.answers is None:
        return answers
    return [
        replace(one, answer=truth) if one.answer == tokenizer.decode(told).strip() else one
        for one, truth, (_, told) in zip(answers, questions.answers, encoded)
    ]


def _answer(question: str, found: Sequence[Continuation], tokenizer: Tokenizer, abstain_below: float | None) -> Answer:
    def read(one: Continuation) -> tuple[str, float]:
        return tokenizer.decode(list(one.ids)).strip(), math.exp(one.log_probability) if one.ended else 0.0

    text, confidence = read(found[0])
    others = tuple(read(one) for one in found[1:] if one.ended)
    return Answer(question, text, confidence, abstain_below is not None and confidence < abstain_below, others)


def said(network: Any, tokenizer: Tokenizer, questions: Questions) -> GivenAnswers:
    """Answers and confidences in the form of ``evaluation.answers``."""
    answers = answer_questions(network, tokenizer, questions)
    return GivenAnswers([one.answer for one in answers], np.array([one.confidence for one in answers]))
