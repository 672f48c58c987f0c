"""The objective ``answers``: loss on the answer and its end token, given the question; answers with confidence.

The confidence is the probability of the whole answer including its end token. Questions are answered in batches with a KV cache
(generation/beams.py). The figures of answers take the plain values that evaluations store, and import matplotlib when they are
drawn: every command imports all objectives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np
import torch

from glassformer.data.batches import Batch
from glassformer.data.data_kinds import PreparedData
from glassformer.data.tokenizers.base import MASK, Tokenizer
from glassformer.evaluation.abstaining import AbstainRule, Answer, AskOptions
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes, Share, in_this_process
from glassformer.figures.predictions import reliability_diagram
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.metrics import Metric
from glassformer.generation.beams import BeamRule, Continuation, search, search_one
from glassformer.knowledge.answer_baselines import ANSWER_BASELINES, LONGEST_TEXT
from glassformer.knowledge.answer_metrics import ANSWER_METRICS, AnswerSet, answer_outcomes
from glassformer.knowledge.hallucination_scores import retrieval_scores
from glassformer.knowledge.questions import Questions
from glassformer.model.losses import IGNORED
from glassformer.model.network import Network
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig
from glassformer.objectives.spans import ANSWER, END, PAD, answer_marks, items_of_steps, shown_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AT_ONCE = 512
"""Questions that are answered in one batch."""

GREEDY = AskOptions()
AHEAD = 256
"""Steps whose questions are drawn and moved to the device together."""

SHOWN = 8
"""Questions in the sample of a report."""


@final
class AnswerBatches:
    """Batches of ``rows`` question-answer pairs, by step number; each epoch visits every question once."""

    def __init__(self, questions: Questions, tokenizer: Tokenizer, *, context: int, rows: int, seed: int) -> None:
        (answer, end), pad = answer_marks(tokenizer), tokenizer.mark_id(PAD)
        encoded = questions.encoded(tokenizer, room=context + 1)
        width = max(len(question) + len(reply) for question, reply in encoded) + 2
        self.rows, self.seed = rows, seed
        self._first, self._chosen_NB = -1, torch.empty(0)
        self.ids_PT = torch.full((len(encoded), width), pad)
        self.targets_PT = torch.full((len(encoded), width), IGNORED)
        for row, (question, reply) in enumerate(encoded):
            text = torch.tensor([*question, answer, *reply, end])
            self.ids_PT[row, : len(text)] = text
            self.targets_PT[row, len(question) + 1 : len(text)] = text[len(question) + 1 :]

    @property
    def steps_per_epoch(self) -> float:
        return len(self.ids_PT) / self.rows

    def on(self, device: torch.device) -> AnswerBatches:
        moved = copy(self)
        moved._first = -1
        moved.ids_PT, moved.targets_PT = self.ids_PT.to(device), self.targets_PT.to(device)
        return moved

    def batch(self, step: int) -> Batch:
        first = step - step % AHEAD
        if first != self._first:
            size = len(self.ids_PT)
            chosen = items_of_steps(first, AHEAD, rows=self.rows, size=size, seed=self.seed, purpose="questions")
            self._first, self._chosen_NB = first, torch.from_numpy(chosen.reshape(AHEAD, -1)).to(self.ids_PT.device)
        chosen_B = self._chosen_NB[step - first]
        return Batch(ids=self.ids_PT[chosen_B, :-1], targets=self.targets_PT[chosen_B, 1:])


@OBJECTIVES.variant("answers")
@final
class AnswersConfig(ObjectiveConfig):
    """Question and answer pairs: ``question <answer> answer <end>``, with loss on the answer and its end alone."""

    reads: ClassVar[tuple[str, ...]] = ("text", "questions")
    judged_on: ClassVar[str] = "questions"
    laws: ClassVar[frozenset[str]] = frozenset({"causality", "cache"})
    metrics: ClassVar[tuple[Metric, ...]] = ANSWER_METRICS
    baselines: ClassVar[Mapping[str, type[Baseline]]] = ANSWER_BASELINES

    sentinels: Literal["answer", "mask"] = "answer"
    """``mask``: ``question <mask> answer <mask>``, as in the exercise that such pairs come from (Stanford CS224N)."""

    def marks(self) -> tuple[str, ...]:
        return (ANSWER, END, PAD) if self.sentinels == "answer" else (MASK, PAD)

    def batches(self, data: PreparedData, *, context: int, batch_size: int, seed: int) -> AnswerBatches:
        if (self.sentinels == "answer") != (ANSWER in data.tokenizer.marks):
            raise ConfigError(
                f"objective.sentinels={self.sentinels} of the answers differs from what the rest of the recipe or its parent "
                "uses; give all of them the same.",
                reason="sentinels-differ",
            )
        questions = data.part("questions").split("train")
        return AnswerBatches(questions, data.tokenizer, context=context, rows=batch_size, seed=seed)

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        tools.keep_going()
        answered = answer_set(answer_questions(network, tools.tokenizer, items, shared=tools.shared))
        tools.progress(len(items))
        if items.nowhere is None:
            return answer_outcomes(items, answered)
        about_nobody = replace(items.nowhere, wordings=items.wordings)
        nowhere = answer_set(answer_questions(network, tools.tokenizer, about_nobody, shared=tools.shared))
        known = retrieval_scores(network, tools.tokenizer, items, answered)
        unknown = retrieval_scores(network, tools.tokenizer, about_nobody, nowhere, required=list(known))
        return answer_outcomes(items, replace(answered, scores=known), replace(nowhere, scores=unknown))

    def validation_metrics(self, network: Network, items: Any, tools: EvaluationTools) -> dict[str, float]:
        tools.keep_going()
        answered = answer_set(answer_questions(network, tools.tokenizer, items, shared=tools.shared))
        return {"exact_match": float(np.mean([one == truth for one, truth in zip(answered.answers, items.answers)]))}

    def predict(self, network: Network, items: Any, tools: EvaluationTools) -> list[dict[str, Any]]:
        answers = answer_questions(network, tools.tokenizer, items)
        rows = [{"question": one.question, "answer": one.answer, "confidence": one.confidence} for one in answers]
        return rows if items.answers is None else [row | {"truth": truth} for row, truth in zip(rows, items.answers)]

    def ask(self, network: Network, items: Any, tools: EvaluationTools, options: AskOptions) -> list[Answer]:
        answers, rule = answer_questions(network, tools.tokenizer, items, options), options.abstain_by
        if rule is None:
            return answers
        questions = replace(items, wordings=rule.wordings)
        scores = rule.score(
            retrieval_scores(
                network, tools.tokenizer, questions, answer_set(answers), families=rule.families, required=rule.names
            )
        )
        return [replace(one, score=float(score), abstained=bool(score < rule.threshold)) for one, score in zip(answers, scores)]

    def abstain_rule(self, details: Mapping[str, Any]) -> AbstainRule | None:
        found = details.get("nowhere", {}).get("retrieved", {}).get("rule")
        return None if found is None else AbstainRule.from_dict(found)

    def sample(self, network: Network, data: PreparedData, tools: EvaluationTools) -> tuple[str, str] | None:
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

    def fit_baselines(self, data: PreparedData) -> dict[str, Baseline]:
        questions = data.part("questions").split("train")
        text = _searched_text(data)
        fitted = {name: kind.fit(questions.questions, questions.answers, text) for name, kind in ANSWER_BASELINES.items()}
        return {name: one for name, one in fitted.items() if one is not None}

    def fitted_on(self, data: PreparedData) -> str:
        return fingerprint([self.kind, data.part("questions").split("train").fingerprint, _searched_text(data)])

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        return shown_rows(batch, tokenizer)


def answer_questions(
    network: Any,
    tokenizer: Tokenizer,
    questions: Questions,
    options: AskOptions = GREEDY,
    *,
    one_by_one: bool = False,
    shared: Share = in_this_process,
) -> list[Answer]:
    """An answer to each question. ``one_by_one``: by the reference implementation, without batching and without a cache.
    ``shared``: spreads batches of questions over the processes of a run.

    A right answer gets the spelling of the reference answer, since a tokenizer may fold case.
    """
    answer_id, end_id = answer_marks(tokenizer)
    first_mark = tokenizer.size - len(tokenizer.marks)
    banned = [token_id for token_id in range(first_mark, tokenizer.size) if token_id != end_id]
    encoded = questions.encoded(tokenizer)
    prompts = [[*question, answer_id] for question, _ in encoded]
    for place, prompt in enumerate(prompts):
        if len(prompt) > network.dims.context:
            raise questions.wrong(
                place,
                f"the question takes {len(prompt)} tokens with its mark, but model.context={network.dims.context}; shorten it.",
                reason="question-too-long",
            )
    rule = BeamRule(end_id=end_id, max_new_tokens=questions.longest_answer, beams=options.beams, banned=banned)
    if one_by_one:
        found = [search_one(network, prompt, rule) for prompt in prompts]
    else:
        found = search(network, prompts, rule, batch_size=AT_ONCE, shared=shared)
    answers = [_answer(question, one, tokenizer, options) for question, one in zip(questions.questions, found)]
    if questions.answers is None:
        return answers
    return [
        replace(one, answer=truth) if one.answer == tokenizer.decode(ids).strip() else one
        for one, truth, (_, ids) in zip(answers, questions.answers, encoded)
    ]


def _answer(question: str, found: Sequence[Continuation], tokenizer: Tokenizer, options: AskOptions) -> Answer:
    def read(one: Continuation) -> tuple[str, float]:
        return tokenizer.decode(list(one.ids)).strip(), math.exp(one.log_probability) if one.ended else 0.0

    text, confidence = read(found[0])
    others = tuple(read(one) for one in found[1:] if one.ended)
    return Answer(question, text, confidence, options.abstains(confidence), others)


def answer_set(answers: Sequence[Answer]) -> AnswerSet:
    """Answers and confidences as ``answer_metrics`` takes them."""
    return AnswerSet([one.answer for one in answers], np.array([one.confidence for one in answers]))


def _searched_text(data: PreparedData) -> str | None:
    """The training text as in its files (a tokenizer may fold case, and capitals are what names are found by); None where it
    is too long to be searched."""
    text = data.part("text")
    return text.training_text() if text.split("train").num_bytes <= LONGEST_TEXT else None


BINS = 20


def answer_pictures(details: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """Figures with captions from the details of an evaluation, for whatever it has."""
    found: list[tuple[Any, str]] = []
    calibration, nowhere = details.get("calibration"), details.get("nowhere") or {}
    if calibration:
        caption = "Reliability: the share of right answers against their confidence; numbers are how many answers."
        temperature = calibration.get("temperature")
        if temperature:
            caption += (
                f" A temperature of {temperature['value']:.2f}, fitted on one half of the people, takes the ECE of the other "
                f"half from {temperature['ece_before']:.3f} to {temperature['ece_after']:.3f}."
            )
        found.append((reliability_diagram(calibration["reliability"]), caption))
    if details.get("coverage"):
        caption = "Accuracy against coverage: the share of right answers when only the surest are given."
        found.append((coverage_figure(details["coverage"]), caption))
    known = [row["confidence"] for row in details.get("answers", []) if "confidence" in row]
    nobody = [row["confidence"] for row in nowhere.get("answers", []) if "confidence" in row]
    if known and nobody:
        threshold = (nowhere.get("abstention") or {}).get("threshold")
        caption = "Confidence of answers about people of the text and about people who are nowhere."
        if threshold is not None:
            caption += " At the threshold 90 % of the known (one half of them) are still answered."
        groups = {"in the text": known, "nowhere": nobody}
        found.append((confidence_of_groups(groups, threshold=threshold), caption))
    if nowhere.get("retrieved"):
        caption = "How well each score of the model tells retrieved answers from made-up ones, on people it was not fitted on."
        found.append((score_bars(nowhere["retrieved"]["auc"]), caption))
    return found


def coverage_figure(points: Sequence[Mapping[str, float]]) -> Figure:
    """Accuracy of the surest answers against how many are given."""
    from glassformer.figures import style

    with style.styled():
        figure, axes = style.new_axes(5.6, 3.6)
        axes.plot([point["coverage"] for point in points], [point["accuracy"] for point in points], color=style.PALETTE[0])
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="share of questions answered", ylabel="share right of them")
        return figure


def confidence_of_groups(groups: Mapping[str, Sequence[float]], *, threshold: float | None = None) -> Figure:
    """How sure answers about each group of people are, as shares by bin of confidence."""
    from glassformer.figures import style

    with style.styled():
        figure, axes = style.new_axes(5.6, 3.2)
        edges = np.linspace(0, 1, BINS + 1)
        for number, (name, values) in enumerate(groups.items()):
            shares = np.histogram(np.asarray(values), bins=edges)[0] / max(1, len(values))
            axes.stairs(
                shares,
                edges,
                color=style.PALETTE[number % len(style.PALETTE)],
                label=f"{name} ({len(values):,})",
                linewidth=1.8,
            )
        if threshold is not None:
            axes.axvline(threshold, color=style.SOFT, linestyle="--", linewidth=1.0, label="threshold")
        axes.set(xlim=(0, 1), xlabel="confidence", ylabel="share of the group")
        axes.legend()
        return figure


def score_bars(scores: Mapping[str, Mapping[str, Any]]) -> Figure:
    """The AUC of each score with its interval; one half is guessing."""
    from glassformer.figures import style

    names = list(scores)
    with style.styled():
        figure, axes = style.new_axes(5.6, 0.5 * len(names) + 1.2)
        for at, name in enumerate(names):
            one = scores[name]
            low, high = (one["value"] if one[key] is None else one[key] for key in ("low", "high"))
            axes.plot([low, high], [at, at], color=style.PALETTE[0], linewidth=1.6)
            axes.plot(one["value"], at, marker="o", color=style.PALETTE[0])
        axes.axvline(0.5, color=style.SOFT, linestyle="--", linewidth=1.0)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlim=(min(0.45, axes.get_xlim()[0]), 1.02), xlabel="AUC: retrieved above made up")
        return figure
