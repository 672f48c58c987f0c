"""Question answering: loss on the answer and its end token, given the question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import Batch, shuffled
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.abstaining import AbstainRule
from glassformer.evaluation.outcomes import Outcomes
from glassformer.evaluation.tools import Baseline, EvaluationTools
from glassformer.foundation.config import fingerprint
from glassformer.foundation.metrics import Metric
from glassformer.foundation.seeds import derive_seed
from glassformer.knowledge.answer_baselines import ANSWER_BASELINES, OpenBookAnswer
from glassformer.knowledge.answer_metrics import ANSWER_METRICS, GivenAnswers, answer_outcomes
from glassformer.knowledge.answer_pictures import answer_pictures
from glassformer.knowledge.answering import answer_questions, said
from glassformer.knowledge.guessing import LONGEST_TEXT
from glassformer.knowledge.questions import Questions
from glassformer.knowledge.retrieval import retrieval_scores
from glassformer.model.losses import IGNORED
from glassformer.model.network import Network
from glassformer.objectives.base import OBJECTIVES, Data, ObjectiveConfig
from glassformer.objectives.spans import ANSWER, END, PAD, batch_loss, shown_rows

AHEAD = 256
"""Steps whose questions are drawn and moved to the device together."""

SHOWN = 8
"""Questions in the sample of a report."""


@final
class AnswerBatches:
    """Batches of ``rows`` question-answer pairs, by step number; each epoch visits every question once."""

    def __init__(self, questions: Questions, tokenizer: Tokenizer, *, context: int, rows: int, seed: int) -> None:
        answer, end, pad = (tokenizer.mark_id(mark) for mark in (ANSWER, END, PAD))
        encoded = questions.encoded(tokenizer, room=context + 1)
        width = max(len(asked) + len(told) for asked, told in encoded) + 2
        self.rows, self.seed = rows, seed
        self._first, self._chosen_NB = -1, torch.empty(0)
        self.ids_PT = torch.full((len(encoded), width), pad)
        self.targets_PT = torch.full((len(encoded), width), IGNORED)
        for row, (asked, told) in enumerate(encoded):
            text = torch.tensor([*asked, answer, *told, end])
            self.ids_PT[row, : len(text)] = text
            self.targets_PT[row, len(asked) + 1 : len(text)] = text[len(asked) + 1 :]

    @property
    def steps_per_epoch(self) -> float:
        return len(self.ids_PT) / self.rows

    def on(self, device: torch.device) -> AnswerBatches:
        moved = object.__new__(AnswerBatches)
        moved.rows, moved.seed, moved._first, moved._chosen_NB = self.rows, self.seed, -1, torch.empty(0)
        moved.ids_PT, moved.targets_PT = self.ids_PT.to(device), self.targets_PT.to(device)
        return moved

    def batch(self, step: int) -> Batch:
        first = step - step % AHEAD
        if first != self._first:
            chosen = torch.from_numpy(self._questions_of(first, AHEAD))
            self._first, self._chosen_NB = first, chosen.to(self.ids_PT.device)
        chosen_B = self._chosen_NB[step - first]
        return Batch(ids=self.ids_PT[chosen_B, :-1], targets=self.targets_PT[chosen_B, 1:])

    def _questions_of(self, first_step: int, steps: int) -> np.ndarray:
        """int64 [steps, rows]: the questions of each step."""
        served = np.arange(first_step * self.rows, (first_step + steps) * self.rows)
        epochs, places = np.divmod(served, len(self.ids_PT))
        for epoch in np.unique(epochs):
            here = epochs == epoch
            places[here] = shuffled(places[here], len(self.ids_PT), derive_seed(self.seed, "questions", int(epoch)))
        return places.reshape(steps, self.rows)


@OBJECTIVES.variant("answers")
@final
class AnswersConfig(ObjectiveConfig):
    """Question and answer pairs: ``question <answer> answer <end>``, with loss on the answer and its end alone."""

    reads: ClassVar[tuple[str, ...]] = ("text", "questions")
    judged_on: ClassVar[str] = "questions"
    laws: ClassVar[frozenset[str]] = frozenset({"causality"})
    metrics: ClassVar[tuple[Metric, ...]] = ANSWER_METRICS
    baselines: ClassVar[Mapping[str, type[Baseline]]] = ANSWER_BASELINES

    def marks(self) -> tuple[str, ...]:
        return (ANSWER, END, PAD)

    def batches(self, data: Data, *, context: int, batch_size: int, seed: int) -> AnswerBatches:
        questions = data.part("questions").split("train")
        return AnswerBatches(questions, data.tokenizer, context=context, rows=batch_size, seed=seed)

    def count(self, batch: Batch) -> Tensor:
        return (batch["targets"] != IGNORED).sum()

    def loss(self, network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor:
        return batch_loss(network, batch, dropout_seed=dropout_seed, smoothing=smoothing)

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        tools.keep_going()
        answered = said(network, tools.tokenizer, items)
        tools.progress(len(items))
        if items.nowhere is None:
            return answer_outcomes(items, answered)
        about_nobody = replace(items.nowhere, wordings=items.wordings)
        nowhere = said(network, tools.tokenizer, about_nobody)
        known = retrieval_scores(network, tools.tokenizer, items, answered)
        unknown = retrieval_scores(network, tools.tokenizer, about_nobody, nowhere, wanted=list(known))
        return answer_outcomes(items, replace(answered, scores=known), replace(nowhere, scores=unknown))

    def validation_metrics(self, network: Network, items: Any, tools: EvaluationTools) -> dict[str, float]:
        tools.keep_going()
        answered = said(network, tools.tokenizer, items)
        return {"exact_match": float(np.mean([one == truth for one, truth in zip(answered.answers, items.answers)]))}

    def predict(self, network: Network, items: Any, tools: EvaluationTools) -> list[dict[str, Any]]:
        answers = answer_questions(network, tools.tokenizer, items)
        rows = [{"question": one.question, "answer": one.answer, "confidence": one.confidence} for one in answers]
        return rows if items.answers is None else [row | {"truth": told} for row, told in zip(rows, items.answers)]

    def ask(
        self,
        network: Network,
        items: Any,
        tools: EvaluationTools,
        *,
        beams: int = 1,
        abstain_below: float | None = None,
        abstain_by: AbstainRule | None = None,
    ) -> list[Any]:
        answers = answer_questions(network, tools.tokenizer, items, beams=beams, abstain_below=abstain_below)
        if abstain_by is None:
            return answers
        given = GivenAnswers([one.answer for one in answers], np.array([one.confidence for one in answers]))
        questions = replace(items, wordings=abstain_by.wordings)
        found = retrieval_scores(network, tools.tokenizer, questions, given, abstain_by.families, wanted=abstain_by.names)
        scores = abstain_by.score(found)
        return [
            replace(one, score=float(score), abstained=bool(score < abstain_by.threshold))
            for one, score in zip(answers, scores)
        ]

    def sample(self, network: Network, data: Data, tools: EvaluationTools) -> tuple[str, str] | None:
        part = data.part("questions")
        name = "validation" if "validation" in part.names else "train"
        some = part.split(name).chosen(range(min(SHOWN, len(part.split(name)))))
        answers = answer_questions(network, tools.tokenizer, some)
        lines = [
            f"{one.question} {one}{'' if one.answer == truth else f'   (truth: {truth})'}"
            for one, truth in zip(answers, some.answers)
        ]
        return "\n".join(lines), f"The first questions of {name}, with the confidence of each answer."

    def pictures(self, details: Mapping[str, Any]) -> list[tuple[Any, str]]:
        return answer_pictures(details)

    def fit_baselines(self, data: Data) -> dict[str, Baseline]:
        questions = data.part("questions").split("train")
        found: dict[str, Baseline] = {
            name: kind.fit(questions.questions, questions.answers) for name, kind in ANSWER_BASELINES.items()
        }
        book = _book(data)
        if book is not None:
            found["open book"] = OpenBookAnswer.of_text(book)
        return found

    def fitted_on(self, data: Data) -> str:
        return fingerprint([self.kind, data.part("questions").split("train").fingerprint, _book(data)])

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        return shown_rows(batch, tokenizer)


def _book(data: Data) -> str | None:
    """The training text as in its files (a tokenizer may fold case, and capitals are what names are found by); None where it
    is too long to be searched."""
    text: Any = data.part("text")
    return text.training_text() if text.split("train").num_bytes <= LONGEST_TEXT else None
