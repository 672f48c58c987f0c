"""Answers with confidence, and when to abstain ("I don't know"): coverage curves, thresholds, a rule of several scores.

Thresholds and rules are fitted on one half of the items and tested on the other. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, final

import numpy as np

from glassformer.evaluation.auc import fit_logistic
from glassformer.evaluation.calibration import first_half
from glassformer.evaluation.interval_estimates import wilson
from glassformer.foundation.errors import UsageError
from glassformer.foundation.estimate import Estimate

DO_NOT_KNOW = "I don't know"
CURVE_POINTS = 50
"""The most points of a saved curve."""


@final
@dataclass(frozen=True)
class Answer:
    """A network's answer to one question, or its label of one text. ``alternatives``: the next most probable ones."""

    question: str
    answer: str
    confidence: float | None
    """None: of a predicted number."""
    abstained: bool = False
    alternatives: tuple[tuple[str, float], ...] = ()
    score: float | None = None
    """The combined score that decided whether to abstain, if a rule was used."""
    unlike: bool | None = None
    """Of a classifier's text: unlike anything seen in training; None: not known."""
    several: bool = False
    """The answer is a set of labels: the confidence is that all are right, and ``alternatives`` has every label by itself."""
    low: float | None = None
    high: float | None = None
    """Of a predicted number: 90 % of such numbers are between these."""

    @property
    def text(self) -> str:
        """The answer, or "I don't know"."""
        return DO_NOT_KNOW if self.abstained else self.answer

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; an abstention has no answer, but a confidence."""
        others = [{"answer": text, "confidence": confidence} for text, confidence in self.alternatives]
        return {
            "question": self.question,
            "answer": self.text,
            "confidence": self.confidence,
            "abstained": self.abstained,
            "alternatives": others,
            **({} if self.score is None else {"score": self.score}),
            **({} if self.unlike is None else {"unlike": self.unlike}),
            **({"several": True} if self.several else {}),
            **({} if self.low is None else {"low": self.low, "high": self.high}),
        }

    def __str__(self) -> str:
        said = self.text
        if self.confidence is not None:
            of = "its best guess: " if self.abstained else "all of it right: " if self.several else ""
            said += f" ({of}{self.confidence:.0%})"
        if self.low is not None:
            said += f" (90 % of such numbers: {self.low:.4g} to {self.high:.4g})"
        return f"{said}, but the text is unlike anything seen in training" if self.unlike else said


@final
@dataclass(frozen=True)
class AskOptions:
    """How questions are answered. ``beams``: width of the beam search. At most one of the other two says when to abstain."""

    beams: int = 1
    abstain_below: float | None = None
    """Abstain where the confidence is below this."""
    abstain_by: AbstainRule | None = None
    """Abstain by the rule that an evaluation fitted."""

    def __post_init__(self) -> None:
        if self.abstain_below is not None and not 0 <= self.abstain_below <= 1:
            raise UsageError(
                f"--abstain-below {self.abstain_below} is not a probability; give a number from 0 to 1.",
                reason="abstain-below-no-probability",
            )

    def abstains(self, confidence: float) -> bool:
        return self.abstain_below is not None and confidence < self.abstain_below


def accuracy_by_coverage(confidence_N: np.ndarray, right_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(coverage, accuracy) of the k most confident answers, k = 1 ... N. Ties share their mean accuracy."""
    order = np.argsort(-confidence_N, kind="stable")
    sure_N, right = confidence_N[order], right_N[order].astype(np.float64)
    # The order among ties is arbitrary, so each counts as their mean.
    _, group_N, size_G = np.unique(-sure_N, return_inverse=True, return_counts=True)
    mean_G = np.bincount(group_N, weights=right) / size_G
    many_N = np.arange(1, len(right) + 1)
    return many_N / max(1, len(right)), np.cumsum(mean_G[group_N]) / many_N


def coverage_area(confidence_N: np.ndarray, right_N: np.ndarray) -> float | None:
    """The mean accuracy over all coverages: 1 if every answer is right, the accuracy if confidence is uninformative."""
    return float(accuracy_by_coverage(confidence_N, right_N)[1].mean()) if len(confidence_N) else None


def coverage_curve(confidence_N: np.ndarray, right_N: np.ndarray) -> list[dict[str, float]]:
    """The curve as plain values, at most ``CURVE_POINTS`` of them."""
    coverage, accuracy = accuracy_by_coverage(confidence_N, right_N)
    threshold = np.sort(confidence_N)[::-1]
    if not len(coverage):
        return []
    places = np.unique(np.linspace(0, len(coverage) - 1, min(CURVE_POINTS, len(coverage))).astype(int))
    return [
        {"coverage": float(coverage[at]), "accuracy": float(accuracy[at]), "threshold": float(threshold[at])} for at in places
    ]


def threshold_for(confidence_N: np.ndarray, answered: float) -> float:
    """The lowest confidence at which at least the share ``answered`` of these items is still answered."""
    ordered = np.sort(confidence_N)[::-1]
    return float(ordered[max(0, int(np.ceil(answered * len(ordered))) - 1)])


def abstention(
    known_N: np.ndarray, known_ids: Sequence[str], nowhere_N: np.ndarray, nowhere_ids: Sequence[str], *, answered: float = 0.9
) -> dict[str, Any] | None:
    """A threshold that still answers the fraction ``answered`` of the known, fitted on one half, with its rates on the other.

    ``known_N``: confidences about people in the training text; ``nowhere_N``: about people who are not.
    """
    known_half, nowhere_half = first_half(known_ids), first_half(nowhere_ids)
    if not known_half.any() or known_half.all() or nowhere_half.all():
        return None
    threshold = threshold_for(known_N[known_half], answered)
    known, nowhere = known_N[~known_half], nowhere_N[~nowhere_half]
    return {
        "threshold": threshold,
        "known_answered": wilson(int((known >= threshold).sum()), len(known)).to_dict(),
        "nowhere_abstained": wilson(int((nowhere < threshold).sum()), len(nowhere)).to_dict(),
    }


def confident(confidence_N: np.ndarray, above: float = 0.5) -> Estimate:
    """The fraction of answers with confidence above ``above``."""
    return wilson(int((confidence_N > above).sum()), len(confidence_N))


@final
@dataclass(frozen=True)
class AbstainRule:
    """Several scores of an answer -> one score, and the threshold below which the answer is "I don't know".

    A logistic regression separates people in the training text from people who are not; the threshold still answers 90 % of
    the known. Saved with the evaluation, for ``ask``. ``names`` of the scores, with each one's mean, standard deviation and
    weight. ``wordings`` and ``families``: inputs of the scores, needed to compute them for a single question.
    """

    names: tuple[str, ...]
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    weights: tuple[float, ...]
    constant: float
    threshold: float
    wordings: tuple[str, ...] = ()
    families: tuple[str, ...] = ()

    @classmethod
    def fit(cls, known: Mapping[str, np.ndarray], nowhere: Mapping[str, np.ndarray], *, answered: float) -> Self:
        """Fits the rule to scores of people in the training text (``known``) and of people who are not (``nowhere``)."""
        names = tuple(known)
        positive, negative = (np.column_stack([scores[name] for name in names]) for scores in (known, nowhere))
        both = np.concatenate([positive, negative])
        mean, spread = both.mean(axis=0), np.maximum(both.std(axis=0), 1e-12)
        label = np.concatenate([np.ones(len(positive)), np.zeros(len(negative))])
        *weights, constant = fit_logistic((both - mean) / spread, label).tolist()
        rule = cls(names, tuple(mean.tolist()), tuple(spread.tolist()), tuple(weights), constant, 0.0)
        return replace(rule, threshold=threshold_for(rule.score(known), answered))

    def score(self, scores: Mapping[str, np.ndarray]) -> np.ndarray:
        """One score per question: the log odds that the person is in the training text."""
        rows = np.column_stack([scores[name] for name in self.names])
        return np.asarray(((rows - np.array(self.mean)) / np.array(self.spread)) @ np.array(self.weights) + self.constant)

    def to_dict(self) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in document.items()}
        return cls(**values)
