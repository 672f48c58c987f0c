"""Baselines of question answering: guessers fitted on the training questions, saved in a run as arrays. Imports no torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, final

import numpy as np

from glassformer.evaluation.outcomes import Outcomes
from glassformer.evaluation.tools import Baseline, EvaluationTools
from glassformer.knowledge.answer_metrics import GivenAnswers, answer_outcomes
from glassformer.knowledge.guessing import BagOfLetters, Constant, Guesser, NearestName, OpenBook


class GuessingBaseline(Baseline):
    """A baseline that answers with a guesser."""

    def __init__(self, guesser: Guesser) -> None:
        self.guesser = guesser

    def evaluate(self, items: Any, tools: EvaluationTools) -> Outcomes:
        nowhere = None if items.nowhere is None else GivenAnswers(self.guesser.answers(items.nowhere.questions))
        return answer_outcomes(items, GivenAnswers(self.guesser.answers(items.questions)), nowhere)

    @classmethod
    @abstractmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str]) -> Self: ...


class _ConstantBaseline(GuessingBaseline):
    guesser: Constant

    def arrays(self) -> dict[str, np.ndarray]:
        return {"answer": packed([self.guesser.answer])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(Constant(unpacked(arrays["answer"])[0]))


@final
class MostCommonAnswer(_ConstantBaseline):
    """The most common answer of the training questions, to everything."""

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str]) -> Self:
        return cls(Constant.most_common(answers))


@final
class LondonAnswer(_ConstantBaseline):
    """London, to everything: the baseline of published figures for birth places."""

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str]) -> Self:
        return cls(Constant("London"))


@final
class NearestNameAnswer(GuessingBaseline):
    """The answer about the training person with the most similar name."""

    guesser: NearestName

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str]) -> Self:
        return cls(NearestName.fit(questions, answers))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"names": packed(self.guesser.names), "answers": packed(self.guesser.known)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(NearestName(unpacked(arrays["names"]), unpacked(arrays["answers"])))


@final
class BagOfLettersAnswer(GuessingBaseline):
    """A guess from the letters of the name alone: from its sound."""

    guesser: BagOfLetters

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str]) -> Self:
        return cls(BagOfLetters.fit(questions, answers))

    def arrays(self) -> dict[str, np.ndarray]:
        guesser = self.guesser
        return {"classes": packed(guesser.classes), "table": guesser.table_CF, "prior": guesser.prior_C}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(BagOfLetters(unpacked(arrays["classes"]), arrays["table"], arrays["prior"]))


@final
class OpenBookAnswer(GuessingBaseline):
    """Pattern matching on the training text itself: an open-book reference for the closed-book model. Not trivial."""

    trivial: ClassVar[bool] = False
    guesser: OpenBook

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str]) -> Self:
        return cls(OpenBook(""))

    @classmethod
    def of_text(cls, text: str) -> Self:
        return cls(OpenBook(text))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"text": np.frombuffer(self.guesser.text.encode(), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(OpenBook(arrays["text"].tobytes().decode()))


def packed(texts: Sequence[str]) -> np.ndarray:
    """Texts without line breaks as one array of bytes."""
    return np.frombuffer("\n".join(texts).encode(), np.uint8)


def unpacked(array: np.ndarray) -> list[str]:
    """The inverse of ``packed``."""
    return array.tobytes().decode().split("\n")


ANSWER_BASELINES: Mapping[str, type[GuessingBaseline]] = {
    "most common answer": MostCommonAnswer,
    "London": LondonAnswer,
    "nearest name": NearestNameAnswer,
    "bag of letters": BagOfLettersAnswer,
    "open book": OpenBookAnswer,
}
"""In the order of the tables, weakest first."""
