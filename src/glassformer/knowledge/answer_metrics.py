"""Answers with confidences -> metrics: exact match, calibration, coverage, hallucination, influence of a name's sound.

Takes lists of answers, from a network or a baseline, and the questions. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glassformer.evaluation.calibration import calibration
from glassformer.evaluation.outcomes import Outcomes, Units
from glassformer.evaluation.statistics import wilson
from glassformer.foundation.errors import DataError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import EXACT_MATCH, Metric
from glassformer.knowledge.coverage import abstention, confident, coverage_area, curve
from glassformer.knowledge.questions import Questions
from glassformer.knowledge.retrieved import retrieved_or_made_up
from glassformer.knowledge.sound import pull_of_sound
from glassformer.knowledge.subjects import subject

ANSWER_METRICS = (
    EXACT_MATCH,
    Metric("coverage_area", "", "mean accuracy over all coverages", lower_is_better=False, judged=False),
    Metric("ece", "", "distance of confidence and accuracy", judged=False),
    Metric("confidence", "", "mean probability of the answer", lower_is_better=False, judged=False),
    Metric("nowhere_confident", "of people nowhere", "answered with more than 0.5", judged=False),
    Metric("nowhere_abstained", "of people nowhere", "unanswered where 90 % of known are", lower_is_better=False, judged=False),
    Metric("known_answered", "of known people", "answered at that threshold", lower_is_better=False, judged=False),
    Metric("nowhere_unread", "of people nowhere", "the same by all scores together", lower_is_better=False, judged=False),
    Metric("retrieved_auc", "", "all scores: retrieved above made up", lower_is_better=False, judged=False),
    Metric("sound_pull", "", "answers about nobody that follow the name's sound, beyond chance", judged=False),
)  # fmt: skip
"""Every figure of answers, in the order of the tables."""

KNOWN_ANSWERED = 0.9
"""The fraction of known people still answered at the threshold of ``nowhere_abstained``."""


FAMILIES = 8


@dataclass(frozen=True)
class GivenAnswers:
    """The answers to some questions, in order. ``confidence`` is None for baselines, which have none."""

    answers: Sequence[str]
    confidence: np.ndarray | None = None
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)


def answer_outcomes(questions: Questions, said: GivenAnswers, nowhere: GivenAnswers | None = None) -> Outcomes:
    """The metrics of answers to ``questions``; ``nowhere``: the answers to ``questions.nowhere``.

    If both have scores, also how well these separate retrieved from hallucinated answers.
    """
    if questions.answers is None:
        raise DataError(
            "has no answers, so nothing can be right or wrong; write what the model says with --predictions FILE, or use ask.",
            file=questions.file or questions.name,
        )
    right_N = np.array([one == truth for one, truth in zip(said.answers, questions.answers)], dtype=np.float64)
    units = {EXACT_MATCH.name: Units(right_N, np.ones(len(right_N)))}
    figures: dict[str, Estimate] = {EXACT_MATCH.name: wilson(int(right_N.sum()), len(right_N))}
    details: dict[str, Any] = {"answers": _table(questions, said, right_N)}
    if said.confidence is not None:
        found = calibration(said.confidence, right_N, questions.ids)
        details |= {"calibration": found, "coverage": curve(said.confidence, right_N)}
        n = len(right_N)
        figures["coverage_area"] = Estimate(coverage_area(said.confidence, right_N), n=n)
        figures["ece"] = Estimate(found["ece"], n=n)
        figures["confidence"] = Estimate(float(said.confidence.mean()) if n else None, n=n)
    if nowhere is not None and questions.nowhere is not None:
        more, about = _about_nowhere(questions, said, questions.nowhere, nowhere, right_N)
        figures |= more
        details["nowhere"] = about
    return Outcomes(
        units=units,
        figures=figures,
        unit="question",
        scope=f"{len(right_N):,} questions",
        ids=questions.ids,
        fingerprint=questions.fingerprint,
        details=details,
    )


def _table(questions: Questions, said: GivenAnswers, right_N: np.ndarray) -> list[dict[str, Any]]:
    truths = questions.answers or [None] * len(questions)
    rows = zip(questions.questions, truths, said.answers, right_N.tolist())
    table: list[dict[str, Any]] = [
        {"question": question, "truth": truth, "answer": answer, "right": bool(right)}
        for question, truth, answer, right in rows
    ]
    if said.confidence is not None:
        for row, confidence in zip(table, said.confidence.tolist()):
            row["confidence"] = confidence
    return table


def _about_nowhere(
    questions: Questions, said: GivenAnswers, nobody: Questions, nowhere: GivenAnswers, right_N: np.ndarray
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Hallucination: answers about people who do not exist, their confidence, and the influence of a name's sound."""
    figures: dict[str, Estimate] = {}
    details: dict[str, Any] = {}
    if said.confidence is not None and nowhere.confidence is not None:
        figures["nowhere_confident"] = confident(nowhere.confidence)
        found = abstention(said.confidence, questions.ids, nowhere.confidence, nobody.ids, answered=KNOWN_ANSWERED)
        if found is not None:
            details["abstention"] = found
            for name in ("nowhere_abstained", "known_answered"):
                figures[name] = Estimate.from_dict(found[name])
    if said.scores and nowhere.scores:
        judged = retrieved_or_made_up(said.scores, right_N, questions.ids, nowhere.scores, nobody.ids, answered=KNOWN_ANSWERED)
        if judged is not None:
            judged["rule"] |= {"wordings": list(questions.wordings), "families": _families(questions)}
            details["retrieved"] = judged
            figures["retrieved_auc"] = Estimate.from_dict(judged["auc"]["together"])
            if judged["abstention"] is not None:
                figures["nowhere_unread"] = Estimate.from_dict(judged["abstention"]["nowhere_abstained"])
    if questions.world is not None:
        sound = sound_of_answers(nobody, nowhere.answers)
        figures["sound_pull"] = sound["answers"]
        details["sound"] = {name: one.to_dict() for name, one in sound.items()}
    details["answers"] = _table(nobody, nowhere, np.zeros(len(nobody)))
    return figures, details


def _families(questions: Questions) -> list[str]:
    """Family names of some people, for the scores that swap the name in a question."""
    return list(dict.fromkeys(subject(one).split()[-1] for one in questions.questions))[:FAMILIES]


def sound_of_answers(questions: Questions, answers: Sequence[str]) -> Mapping[str, Estimate]:
    """The association of answers with the name's sound, and that of the true answers, for comparison."""
    assert questions.world is not None
    names = {subject(question): at for at, question in enumerate(questions.questions)}
    region_of = {place: region for region, places in enumerate(questions.world.places()) for place in places}
    sounds: list[int] = [-1] * len(questions)
    truth: list[int | None] = [None] * len(questions)
    for person in questions.world.people():
        at = names.get(person["name"])
        if at is not None:
            sounds[at], truth[at] = int(person["people"]), int(person["region"])
    kept = [at for at, sound in enumerate(sounds) if sound >= 0]
    return {
        "answers": pull_of_sound([sounds[at] for at in kept], [region_of.get(answers[at]) for at in kept]),
        "truth": pull_of_sound([sounds[at] for at in kept], [truth[at] for at in kept]),
    }
