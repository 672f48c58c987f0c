"""Baselines of a classifier: the majority class, the shares of the classes, and bags of words with logistic regression.

Fitted on the training texts in a second or two and saved in the run as arrays. Imports no torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Self, final

import numpy as np

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.bags import Bag
from glassformer.evaluation.jackknife import mean
from glassformer.evaluation.label_metrics import label_outcomes
from glassformer.evaluation.logistic import LogisticRegression
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes, Units

SHRINKING = 10.0
"""Inverse regularisation strength: scikit-learn's C of the published comparison."""


class LabelBaseline(Baseline):
    """Subclasses implement ``log_probabilities``."""

    @abstractmethod
    def log_probabilities(self, items: LabelledTexts) -> np.ndarray:
        """float64 [N, C]."""

    def evaluate(self, items: LabelledTexts, tools: EvaluationTools) -> Outcomes:
        return label_outcomes(self.log_probabilities(items), items)


@final
class Majority(LabelBaseline):
    """Always the most frequent class of the training texts, with the share that it has there as its confidence."""

    def __init__(self, shares_C: np.ndarray) -> None:
        self.shares_C = shares_C

    @classmethod
    def fit(cls, items: LabelledTexts) -> Self:
        """Class frequencies with add-one smoothing."""
        counts = items.counts + 1.0
        return cls(counts / counts.sum())

    def log_probabilities(self, items: LabelledTexts) -> np.ndarray:
        return np.tile(np.log(self.shares_C), (len(items), 1))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"shares": self.shares_C}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(arrays["shares"])


@final
class Prior(LabelBaseline):
    """A class drawn at random by its frequency in the training texts."""

    def __init__(self, shares_C: np.ndarray) -> None:
        self.shares_C = shares_C

    @classmethod
    def fit(cls, items: LabelledTexts) -> Self:
        return cls(Majority.fit(items).shares_C)

    def evaluate(self, items: LabelledTexts, tools: EvaluationTools) -> Outcomes:
        """The expected accuracy for each text, without sampling."""
        outcomes = label_outcomes(self.log_probabilities(items), items)
        chance_N = self.shares_C[items.labels]
        return guessed(outcomes, chance_N)

    def log_probabilities(self, items: LabelledTexts) -> np.ndarray:
        return np.tile(np.log(self.shares_C), (len(items), 1))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"shares": self.shares_C}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(arrays["shares"])


class BagOfWords(LabelBaseline):
    """Counts of words with logistic regression: no order, no mixing, and often hard to beat."""

    trivial: ClassVar[bool] = False
    weighted: ClassVar[bool] = False
    pairs: ClassVar[bool] = False

    def __init__(self, bag: Bag, regression: LogisticRegression) -> None:
        self.bag, self.regression = bag, regression

    @classmethod
    def fit(cls, items: LabelledTexts) -> Self:
        bag, rows = Bag.with_rows(items.texts, items.pairs, weighted=cls.weighted, pairs=cls.pairs)
        return cls(bag, LogisticRegression.fit(rows, items.labels, len(items.label_names), c=SHRINKING))

    def log_probabilities(self, items: LabelledTexts) -> np.ndarray:
        return self.regression.log_probabilities(self.bag.rows(items.texts, items.pairs))

    def arrays(self) -> dict[str, np.ndarray]:
        words = np.frombuffer("\n".join(self.bag.vocabulary).encode(), np.uint8)
        idf = np.zeros(0) if self.bag.idf is None else self.bag.idf
        return {"words": words, "idf": idf, "weights": self.regression.weights, "bias": self.regression.bias}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        words = tuple(arrays["words"].tobytes().decode().split("\n"))
        bag = Bag(words, arrays["idf"] if len(arrays["idf"]) else None, cls.pairs)
        return cls(bag, LogisticRegression(arrays["weights"], arrays["bias"]))


@final
class WordPairs(BagOfWords):
    """tf-idf of words and of pairs of neighbouring words, with logistic regression."""

    weighted: ClassVar[bool] = True
    pairs: ClassVar[bool] = True


def guessed(outcomes: Outcomes, chance_N: np.ndarray) -> Outcomes:
    """The outcomes of guessing: each text is right with its own chance."""
    accuracy = Units(chance_N, np.ones(len(chance_N)))
    shown = {name: outcomes.figures[name] for name in ("loss",)}
    units = {**outcomes.units, "accuracy": accuracy}
    return replace(outcomes, units=units, figures={"accuracy": mean(chance_N), **shown}, details={}, notes=())


LABEL_BASELINES: Mapping[str, type[LabelBaseline]] = {
    "prior": Prior,
    "majority": Majority,
    "bag of words": BagOfWords,
    "word pairs": WordPairs,
}
"""Weakest first."""


def fit_label_baselines(items: LabelledTexts) -> dict[str, LabelBaseline]:
    """All of them, on the training texts."""
    fits = {"prior": Prior.fit, "majority": Majority.fit, "bag of words": BagOfWords.fit, "word pairs": WordPairs.fit}
    return {name: fit(items) for name, fit in fits.items()}
