"""Baselines of a translation: the source as it is, the nearest training source's translation, frequent target words.

Saved in the run as plain arrays. Imports no torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Self, final

import numpy as np

from glassformer.data.pairs.text_pairs import Pairs
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes
from glassformer.evaluation.translation_metrics import translation_outcomes
from glassformer.runs.baselines_file import texts_of_array, texts_to_array

MOST_PAIRS = 200_000
"""Training pairs that the nearest one is searched among: of more, the first."""
BETWEEN = "\0"
"""Between the texts of a saved array: a source may have several lines."""
WORDS_OF_A_SENTENCE = 3
"""Sources of fewer words on average are compared by their letters."""


class TranslationBaseline(Baseline):
    """Subclasses implement ``translate``."""

    @abstractmethod
    def translate(self, sources: Sequence[str]) -> list[str]: ...

    def evaluate(self, items: Pairs, tools: EvaluationTools) -> Outcomes:
        return translation_outcomes(items, self.translate(items.sources))


@final
class Copy(TranslationBaseline):
    """The source as it is."""

    def translate(self, sources: Sequence[str]) -> list[str]:
        return list(sources)


@final
class Frequent(TranslationBaseline):
    """For every source the same: the most frequent target words, as many as a target has on average."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def fit(cls, items: Pairs) -> Self:
        targets = [target.split() for target in items.require_targets()]
        counts = Counter(word for words in targets for word in words)
        length = round(sum(map(len, targets)) / max(1, len(targets)))
        return cls(" ".join(word for word, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[: max(1, length)]))

    def translate(self, sources: Sequence[str]) -> list[str]:
        return [self.text] * len(sources)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"text": texts_to_array([self.text], BETWEEN)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(texts_of_array(arrays["text"], BETWEEN)[0])


@final
class Nearest(TranslationBaseline):
    """The target of the training source that shares most words (tf-idf); among short sources, most groups of letters."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self.sources, self.targets = list(sources), list(targets)

    @classmethod
    def fit(cls, items: Pairs) -> Self:
        return cls(items.sources[:MOST_PAIRS], items.require_targets()[:MOST_PAIRS])

    def translate(self, sources: Sequence[str]) -> list[str]:
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = sum(len(source.split()) for source in self.sources) / max(1, len(self.sources))
        if words >= WORDS_OF_A_SENTENCE:
            vectorizer = TfidfVectorizer(token_pattern=r"\w+|[^\w\s]")
        else:
            vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 3))
        known = vectorizer.fit_transform(self.sources)
        found: list[str] = []
        for begin in range(0, len(sources), 256):
            likeness = vectorizer.transform(sources[begin : begin + 256]) @ known.T
            found += [self.targets[int(at)] for at in np.asarray(likeness.argmax(axis=1)).ravel()]
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        return {"sources": texts_to_array(self.sources, BETWEEN), "targets": texts_to_array(self.targets, BETWEEN)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(texts_of_array(arrays["sources"], BETWEEN), texts_of_array(arrays["targets"], BETWEEN))


TRANSLATION_BASELINES: Mapping[str, type[Baseline]] = {"copy": Copy, "frequent": Frequent, "nearest": Nearest}


def fit_translation_baselines(items: Pairs) -> dict[str, Baseline]:
    """All of them, fitted on the training pairs."""
    return {"copy": Copy(), "frequent": Frequent.fit(items), "nearest": Nearest.fit(items)}
