"""Baselines of question answering, without a network: fitted on the training questions, saved in a run as arrays.

Most common answer, London, nearest name, naive Bayes on letters, pattern matching on the text. Imports no torch.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, final

import numpy as np

from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes
from glassformer.knowledge.answer_metrics import AnswerSet, answer_outcomes
from glassformer.knowledge.questions import NAME, subject
from glassformer.runs.baselines_file import texts_of_array, texts_to_array

FEATURES = 1024
"""The size of the hashed features: character 1- to 3-grams of a name."""

SMOOTHING = 0.5
"""Added to each count of naive Bayes."""

LONGEST_TEXT = 32 << 20
"""The largest text in bytes for ``OpenBookAnswer``; it is saved in the run."""

_PLACE = rf"({NAME}(?:[ -]{NAME})*)"
_BIRTH = (
    re.compile(rf"\b[Bb]orn\b[^.;]{{0,60}}?\b(?:in|at|near)\s+(?:the\s+)?{_PLACE}"),
    re.compile(rf"\b[Bb]irth ?place\b[^.;]{{0,80}}?\b(?:is|was)\s+{_PLACE}"),
    re.compile(rf"\({_PLACE}\s*[,;]|\(\d[^)]*?,?\s{_PLACE}"),
    re.compile(rf"^{_PLACE} is where "),
    re.compile(rf"\b(?:from|in|left)\s+(?:the\s+)?{_PLACE}"),
)


class AnswerBaseline(Baseline):
    """A baseline with one answer to each question, and no confidence."""

    @abstractmethod
    def answers(self, questions: Sequence[str]) -> list[str]: ...

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str], text: str | None) -> Self | None:
        """From the training questions and the training text; None where the text is needed and too long to be searched."""
        raise NotImplementedError

    def evaluate(self, items: Any, tools: EvaluationTools) -> Outcomes:
        nowhere = None if items.nowhere is None else AnswerSet(self.answers(items.nowhere.questions))
        return answer_outcomes(items, AnswerSet(self.answers(items.questions)), nowhere)


class ConstantAnswer(AnswerBaseline):
    """The same answer to every question."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def answers(self, questions: Sequence[str]) -> list[str]:
        return [self.answer] * len(questions)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"answer": texts_to_array([self.answer])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(texts_of_array(arrays["answer"])[0])


@final
class MostCommonAnswer(ConstantAnswer):
    """The most common answer of the training questions; the first of equally common ones by the alphabet."""

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str], text: str | None) -> Self:
        counts = Counter(answers)
        return cls(min(counts, key=lambda answer: (-counts[answer], answer)))


@final
class LondonAnswer(ConstantAnswer):
    """London, to everything: the baseline of published figures for birth places."""

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str], text: str | None) -> Self:
        return cls("London")


@final
class NearestNameAnswer(AnswerBaseline):
    """The answer about the training person with the most similar name, by cosine similarity of character n-grams."""

    def __init__(self, names: Sequence[str], answers: Sequence[str]) -> None:
        self.names, self.known = list(names), list(answers)
        self._table_NF = _unit(np.stack([letters(name) for name in names]))

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str], text: str | None) -> Self:
        by_name = {subject(question): answer for question, answer in zip(questions, answers)}
        return cls(list(by_name), list(by_name.values()))

    def answers(self, questions: Sequence[str]) -> list[str]:
        found = []
        for features_BF in _letter_batches(questions):
            found += [self.known[at] for at in (_unit(features_BF) @ self._table_NF.T).argmax(axis=1).tolist()]
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        return {"names": texts_to_array(self.names), "answers": texts_to_array(self.known)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(texts_of_array(arrays["names"]), texts_of_array(arrays["answers"]))


@final
class BagOfLettersAnswer(AnswerBaseline):
    """The most probable answer given the name's character n-grams (naive Bayes): a guess from its sound."""

    def __init__(self, classes: Sequence[str], table_CF: np.ndarray, prior_C: np.ndarray) -> None:
        self.classes, self.table_CF, self.prior_C = list(classes), table_CF, prior_C

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str], text: str | None) -> Self:
        by_name = {subject(question): answer for question, answer in zip(questions, answers)}
        classes = sorted(set(by_name.values()))
        place = {answer: number for number, answer in enumerate(classes)}
        counts_CF, prior_C = np.full((len(classes), FEATURES), SMOOTHING), np.zeros(len(classes))
        for name, answer in by_name.items():
            counts_CF[place[answer]] += letters(name)
            prior_C[place[answer]] += 1
        table_CF = np.log(counts_CF / counts_CF.sum(axis=1, keepdims=True))
        return cls(classes, table_CF.astype(np.float32), np.log(prior_C / prior_C.sum()).astype(np.float32))

    def answers(self, questions: Sequence[str]) -> list[str]:
        found = []
        for features_BF in _letter_batches(questions):
            found += [self.classes[at] for at in (features_BF @ self.table_CF.T + self.prior_C).argmax(axis=1).tolist()]
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        return {"classes": texts_to_array(self.classes), "table": self.table_CF, "prior": self.prior_C}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(texts_of_array(arrays["classes"]), arrays["table"], arrays["prior"])


@final
class OpenBookAnswer(AnswerBaseline):
    """Pattern matching on the lines of the training text with the person's name: an open-book reference. Not trivial."""

    trivial: ClassVar[bool] = False

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines: dict[str, list[str]] = {}
        for line in text.splitlines():
            for word in set(re.findall(NAME, line)):
                self._lines.setdefault(word.rstrip(".'’-"), []).append(line)

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str], text: str | None) -> Self | None:
        return None if text is None else cls(text)

    def answers(self, questions: Sequence[str]) -> list[str]:
        return [self.answer(subject(question)) for question in questions]

    def answer(self, name: str) -> str:
        words = re.findall(NAME, name)
        lists = [self._lines.get(word.rstrip(".'’-"), []) for word in words]
        lines = [line for line in min(lists, key=len, default=[]) if name in line]
        for pattern in _BIRTH:
            for line in lines:
                found = pattern.search(line.removeprefix(f"{name}. ").replace(name, ""))
                if found:
                    return next(group for group in found.groups() if group).rstrip(".")
        return ""

    def arrays(self) -> dict[str, np.ndarray]:
        return {"text": texts_to_array([self.text])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(arrays["text"].tobytes().decode())


ANSWER_BASELINES: Mapping[str, type[AnswerBaseline]] = {
    "most common answer": MostCommonAnswer,
    "London": LondonAnswer,
    "nearest name": NearestNameAnswer,
    "bag of letters": BagOfLettersAnswer,
    "open book": OpenBookAnswer,
}
"""In the order of the tables, weakest first."""


def letters(name: str) -> np.ndarray:
    """float32 [FEATURES]: hashed counts of the name's character 1- to 3-grams, with its ends marked."""
    counts = np.zeros(FEATURES, np.float32)
    text = f"^{name.lower()}$"
    for size in (1, 2, 3):
        for at in range(len(text) - size + 1):
            value = 0
            for sign in text[at : at + size]:
                value = (value * 1_000_003 + ord(sign) + 1) & 0xFFFFFFFF
            counts[(value ^ (value >> 15)) % FEATURES] += 1
    return counts


def _letter_batches(questions: Sequence[str]) -> Iterator[np.ndarray]:
    """float32 [256, FEATURES]: the letters of the names in 256 questions at a time."""
    for begin in range(0, len(questions), 256):
        yield np.stack([letters(subject(question)) for question in questions[begin : begin + 256]])


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
