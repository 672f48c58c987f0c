"""Answers with confidences -> metrics: exact match, calibration, coverage, hallucination, influence of a name's sound.

Takes lists of answers, from a network or a baseline, and the questions. Retrieved: a right answer about a person in the
training text. Made up (hallucinated): a wrong one, and any answer about people who are nowhere. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glassformer.evaluation.abstaining import AbstainRule, abstention, confident, coverage_area, coverage_curve
from glassformer.evaluation.auc import auc, together
from glassformer.evaluation.calibration import calibration, first_half
from glassformer.evaluation.interval_estimates import wilson
from glassformer.evaluation.results import Outcomes, Units
from glassformer.foundation.distributions import t_upper
from glassformer.foundation.errors import DataError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import EXACT_MATCH, Metric
from glassformer.knowledge.questions import Questions, subject

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
"""Family names that are saved with the abstention rule."""


@dataclass(frozen=True)
class AnswerSet:
    """The answers to some questions, in order. ``confidence`` is None for baselines, which have none."""

    answers: Sequence[str]
    confidence: np.ndarray | None = None
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)


def answer_outcomes(questions: Questions, known: AnswerSet, nowhere: AnswerSet | None = None) -> Outcomes:
    """The metrics of answers to ``questions`` (``known``); ``nowhere``: the answers to ``questions.nowhere``.

    If both have scores, also how well these separate retrieved from hallucinated answers.
    """
    if questions.answers is None:
        raise DataError(
            "has no answers to compare with; write the model's answers with --predictions FILE, or use ask.",
            file=questions.file or questions.name,
            reason="no-answers",
        )
    right_N = np.array([one == truth for one, truth in zip(known.answers, questions.answers)], dtype=np.float64)
    units = {EXACT_MATCH.name: Units(right_N, np.ones(len(right_N)))}
    figures: dict[str, Estimate] = {EXACT_MATCH.name: wilson(int(right_N.sum()), len(right_N))}
    details: dict[str, Any] = {"answers": _table(questions, known, right_N)}
    if known.confidence is not None:
        found = calibration(known.confidence, right_N, questions.ids)
        details |= {"calibration": found, "coverage": coverage_curve(known.confidence, right_N)}
        n = len(right_N)
        figures["coverage_area"] = Estimate(coverage_area(known.confidence, right_N), n=n)
        figures["ece"] = Estimate(found["ece"], n=n)
        figures["confidence"] = Estimate(float(known.confidence.mean()) if n else None, n=n)
    if nowhere is not None and questions.nowhere is not None:
        more, about = _about_nowhere(questions, known, questions.nowhere, nowhere, right_N)
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


def _table(questions: Questions, answers: AnswerSet, right_N: np.ndarray) -> list[dict[str, Any]]:
    truths = questions.answers or [None] * len(questions)
    rows = zip(questions.questions, truths, answers.answers, right_N.tolist())
    table: list[dict[str, Any]] = [
        {"question": question, "truth": truth, "answer": answer, "right": bool(right)}
        for question, truth, answer, right in rows
    ]
    if answers.confidence is not None:
        for row, confidence in zip(table, answers.confidence.tolist()):
            row["confidence"] = confidence
    return table


def _about_nowhere(
    questions: Questions, known: AnswerSet, about_nobody: Questions, nowhere: AnswerSet, right_N: np.ndarray
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Hallucination: answers about people who do not exist, their confidence, and the influence of a name's sound."""
    figures: dict[str, Estimate] = {}
    details: dict[str, Any] = {}
    if known.confidence is not None and nowhere.confidence is not None:
        figures["nowhere_confident"] = confident(nowhere.confidence)
        found = abstention(known.confidence, questions.ids, nowhere.confidence, about_nobody.ids, answered=KNOWN_ANSWERED)
        if found is not None:
            details["abstention"] = found
            for name in ("nowhere_abstained", "known_answered"):
                figures[name] = Estimate.from_dict(found[name])
    if known.scores and nowhere.scores:
        judged = retrieved_or_made_up(known.scores, right_N, questions.ids, nowhere.scores, about_nobody.ids)
        if judged is not None:
            judged["rule"] |= {"wordings": list(questions.wordings), "families": _families(questions)}
            details["retrieved"] = judged
            figures["retrieved_auc"] = Estimate.from_dict(judged["auc"]["together"])
            if judged["abstention"] is not None:
                figures["nowhere_unread"] = Estimate.from_dict(judged["abstention"]["nowhere_abstained"])
    if questions.world is not None:
        sound = sound_of_answers(about_nobody, nowhere.answers)
        figures["sound_pull"] = sound["answers"]
        details["sound"] = {name: one.to_dict() for name, one in sound.items()}
    details["answers"] = _table(about_nobody, nowhere, np.zeros(len(about_nobody)))
    return figures, details


def retrieved_or_made_up(
    known: Mapping[str, np.ndarray],
    right_N: np.ndarray,
    known_ids: Sequence[str],
    nowhere: Mapping[str, np.ndarray],
    nowhere_ids: Sequence[str],
) -> dict[str, Any] | None:
    """How well scores separate retrieved from made-up answers: AUC of each score and of all combined, and abstention.

    Scores are combined by a logistic regression fitted on one half of the people and tested on the other. ``rule``: the
    abstention rule, for new questions.
    """
    names = list(known)
    scores = np.column_stack([np.concatenate([known[name], nowhere[name]]) for name in names])
    retrieved = np.concatenate([right_N > 0, np.zeros(len(nowhere_ids), dtype=bool)])
    fitted = first_half([*known_ids, *nowhere_ids])
    other = ~fitted
    if not (retrieved[fitted].any() and (~retrieved)[fitted].any() and retrieved[other].any() and (~retrieved)[other].any()):
        return None
    found = {name: auc(column[other & retrieved], column[other & ~retrieved]) for name, column in zip(names, scores.T)}
    combined = together(scores[fitted], retrieved[fitted].astype(np.float64), scores)
    found["together"] = auc(combined[other & retrieved], combined[other & ~retrieved])
    # The abstention rule predicts whether a person is in the text, not whether the answer is right.
    known_half, nowhere_half = first_half(known_ids), first_half(nowhere_ids)
    rule = AbstainRule.fit(
        {name: values[known_half] for name, values in known.items()},
        {name: values[nowhere_half] for name, values in nowhere.items()},
        answered=KNOWN_ANSWERED,
    )
    return {
        "auc": {name: one.to_dict() for name, one in found.items()},
        "abstention": abstention(rule.score(known), known_ids, rule.score(nowhere), nowhere_ids, answered=KNOWN_ANSWERED),
        "rule": rule.to_dict(),
        "tested_on": {"retrieved": int((other & retrieved).sum()), "made_up": int((other & ~retrieved).sum())},
    }


def _families(questions: Questions) -> list[str]:
    """Family names of some people, for the score that swaps the family name in a line."""
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
    found = [at for at, sound in enumerate(sounds) if sound >= 0]
    return {
        "answers": pull_of_sound([sounds[at] for at in found], [region_of.get(answers[at]) for at in found]),
        "truth": pull_of_sound([sounds[at] for at in found], [truth[at] for at in found]),
    }


def pull_of_sound(sounds: Sequence[str | int], regions: Sequence[str | int | None]) -> Estimate:
    """The association of answers with the sound of names: how many are in the region the name sounds like, beyond chance.

    Chance: the same answers randomly permuted over the names. ``sounds[i]``: the region name i sounds like; ``regions[i]``:
    that of the answer (None: no known place). The interval is the jackknife's over people.
    """
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys([*sounds, *(one for one in regions if one is not None)]))}
    sound_N = np.array([kinds[one] for one in sounds], dtype=np.int64)
    region_N = np.array([-1 if one is None else kinds[one] for one in regions], dtype=np.int64)
    n = len(sound_N)
    if n < 3:
        return Estimate(None, n=n, reason="fewer than 3 people")
    sound_K = np.bincount(sound_N, minlength=len(kinds)).astype(np.float64)
    region_K = np.bincount(region_N[region_N >= 0], minlength=len(kinds)).astype(np.float64)
    agree_N = (sound_N == region_N).astype(np.float64)
    pull = _pull(agree_N.sum(), float(sound_K @ region_K), n)
    # Leaving out person i subtracts one from the counts of their sound and their region.
    there_N = region_N >= 0
    dealt_N = float(sound_K @ region_K) - region_K[sound_N] - np.where(there_N, sound_K[np.maximum(region_N, 0)], 0) + agree_N
    without_N = _pull(agree_N.sum() - agree_N, dealt_N, n - 1)
    error = float(np.sqrt((n - 1) / n * ((without_N - without_N.mean()) ** 2).sum()))
    half = float(t_upper(0.025, n - 1)) * error
    return Estimate(float(pull), float(pull) - half, float(pull) + half, n)


def _pull(agreeing: np.ndarray | float, dealt: np.ndarray | float, n: int) -> np.ndarray:
    """Agreement minus that of randomly permuted answers; n / (n - 1) corrects for fixed points."""
    return np.asarray((np.asarray(agreeing) / n - np.asarray(dealt) / n**2) * n / (n - 1))
