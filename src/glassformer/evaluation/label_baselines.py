"""Baselines of a classifier: the majority class, the shares of the classes, and bags of words with logistic regression.

Fitted on the training texts by scikit-learn in a second or two and saved in the run as plain arrays. scikit-learn is imported
only where a bag of words is fitted or evaluated. Imports no torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, final

import numpy as np

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.interval_estimates import mean
from glassformer.evaluation.label_metrics import label_outcomes
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes, Units
from glassformer.runs.baselines_file import texts_of_array, texts_to_array

INVERSE_REGULARISATION = 10.0
"""scikit-learn's ``C`` of the published comparison."""
MOST_TEXTS = 100_000
"""Texts that a bag of words is fitted on, drawn at random from more: its memory grows with each, and its accuracy hardly."""
TOLERANCE = 1e-6
"""Of the largest gradient for each text, at which the regression stops."""
ABSENT = -20.0
"""The score of a class without training texts: its probability is practically zero, and its loss finite."""


class LabelBaseline(Baseline):
    """Subclasses implement ``fit`` and ``log_probabilities``."""

    @classmethod
    @abstractmethod
    def fit(cls, items: LabelledTexts) -> Self:
        """The baseline for these training texts."""

    @abstractmethod
    def log_probabilities(self, items: LabelledTexts) -> np.ndarray:
        """float64 [N, C]."""

    def evaluate(self, items: LabelledTexts, tools: EvaluationTools) -> Outcomes:
        return label_outcomes(self.log_probabilities(items), items)


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
class Prior(Majority):
    """A class drawn at random by its frequency in the training texts."""

    def evaluate(self, items: LabelledTexts, tools: EvaluationTools) -> Outcomes:
        """The expected accuracy for each text, without sampling."""
        outcomes, chance_N = super().evaluate(items, tools), self.shares_C[items.labels]
        units = {**outcomes.units, "accuracy": Units(chance_N, np.ones(len(chance_N)))}
        figures = {"accuracy": mean(chance_N), "loss": outcomes.figures["loss"]}
        return replace(outcomes, units=units, figures=figures, details={}, notes=())


class BagOfWords(LabelBaseline):
    """Counts of words with logistic regression: no order, no mixing, and often hard to beat.

    Words are scikit-learn's: two or more letters or digits, in lower case. The second text of a pair has its own vocabulary.
    """

    trivial: ClassVar[bool] = False
    longest: ClassVar[int] = 1
    """The longest sequence of neighbouring words that is counted."""
    weighted: ClassVar[bool] = False
    """tf-idf instead of counts: rare words count more, and every row has length 1."""

    def __init__(
        self, vocabularies: Sequence[Sequence[str]], idf_F: np.ndarray | None, weights_FC: np.ndarray, bias_C: np.ndarray
    ) -> None:
        self.vocabularies, self.idf_F, self.weights_FC, self.bias_C = vocabularies, idf_F, weights_FC, bias_C

    @classmethod
    def fit(cls, items: LabelledTexts) -> Self:
        from scipy.sparse import hstack
        from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
        from threadpoolctl import threadpool_limits

        if len(items) > MOST_TEXTS:
            items = items[np.sort(np.random.default_rng(0).permutation(len(items))[:MOST_TEXTS]).tolist()]
        vocabularies, counted = [], []
        for texts in _columns(items):
            vectorizer = CountVectorizer(ngram_range=(1, cls.longest), dtype=np.float64)
            try:
                counted.append(vectorizer.fit_transform(texts))
            except ValueError:  # no text has a word: one column that stays empty
                vectorizer = CountVectorizer(vocabulary=[""], dtype=np.float64)
                counted.append(vectorizer.transform(texts))
            columns = vectorizer.vocabulary_
            vocabularies.append(sorted(columns, key=columns.__getitem__))
        counts_NF = hstack(counted, format="csr")
        idf_F = TfidfTransformer().fit(counts_NF).idf_ if cls.weighted else None
        with threadpool_limits(1):  # a threaded BLAS adds up in another order with another number of threads
            weights_FC, bias_C = cls.regression(_weighted(counts_NF, idf_F), items)
        return cls(vocabularies, idf_F, weights_FC, bias_C)

    @classmethod
    def regression(cls, rows_NF: Any, items: LabelledTexts) -> tuple[np.ndarray, np.ndarray]:
        """(weights [F, C], bias [C]) of the scores, fitted on counted texts."""
        return logistic(rows_NF, items.labels, len(items.label_names))

    def log_probabilities(self, items: LabelledTexts) -> np.ndarray:
        from scipy.special import log_softmax

        return np.asarray(log_softmax(self.scores(items), axis=1))

    def scores(self, items: LabelledTexts) -> np.ndarray:
        """float64 [N, C]: the linear map of the counted texts."""
        from scipy.sparse import hstack
        from sklearn.feature_extraction.text import CountVectorizer

        counted = [
            CountVectorizer(ngram_range=(1, self.longest), vocabulary=vocabulary, dtype=np.float64).transform(texts)
            for vocabulary, texts in zip(self.vocabularies, _columns(items))
        ]
        return np.asarray(_weighted(hstack(counted, format="csr"), self.idf_F) @ self.weights_FC + self.bias_C)

    def arrays(self) -> dict[str, np.ndarray]:
        words = {f"words{place}": texts_to_array(vocabulary) for place, vocabulary in enumerate(self.vocabularies)}
        idf = {} if self.idf_F is None else {"idf": self.idf_F}
        return {**words, **idf, "weights": self.weights_FC, "bias": self.bias_C}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        words = [texts_of_array(arrays[key]) for key in ("words0", "words1") if key in arrays]
        return cls(words, arrays.get("idf"), arrays["weights"], arrays["bias"])


def logistic(rows_NF: Any, labels_N: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Logistic regression (scikit-learn) of class indices: (weights [F, C], bias [C])."""
    from sklearn.linear_model import LogisticRegression

    found = LogisticRegression(C=INVERSE_REGULARISATION, solver="newton-cg", tol=TOLERANCE, max_iter=1000).fit(
        rows_NF, labels_N
    )
    weights_FC, bias_C = np.zeros((rows_NF.shape[1], classes)), np.full(classes, ABSENT)
    bias_C[found.classes_] = 0.0
    scored = found.classes_[-len(found.coef_) :]  # of two classes, scikit-learn scores the second alone
    weights_FC[:, scored], bias_C[scored] = found.coef_.T, found.intercept_
    return weights_FC, bias_C


def _columns(items: LabelledTexts) -> list[Sequence[str]]:
    """The texts, and the second texts where the items are pairs."""
    return [items.texts] if items.pairs is None else [items.texts, items.pairs]


def _weighted(counts_NF: Any, idf_F: np.ndarray | None) -> Any:
    """Sparse counts -> tf-idf with rows of length 1; unchanged without ``idf_F``."""
    from sklearn.preprocessing import normalize

    return counts_NF if idf_F is None else normalize(counts_NF.multiply(idf_F).tocsr())


class WordPairs(BagOfWords):
    """tf-idf of words and of pairs of neighbouring words, with logistic regression."""

    longest: ClassVar[int] = 2
    weighted: ClassVar[bool] = True


LABEL_BASELINES: Mapping[str, type[LabelBaseline]] = {
    "prior": Prior,
    "majority": Majority,
    "bag of words": BagOfWords,
    "word pairs": WordPairs,
}
"""Weakest first."""
