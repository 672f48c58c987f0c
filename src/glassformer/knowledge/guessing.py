"""Question answering without a network: most common answer, nearest name, naive Bayes on letters, pattern matching.

Imports no torch.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import final

import numpy as np

from glassformer.knowledge.subjects import NAME, subject

FEATURES = 1024
"""The size of the hashed features: character 1- to 3-grams of a name."""

LONGEST_TEXT = 32 << 20
"""The largest text in bytes for ``OpenBook``; it is saved in the run."""

_PLACE = rf"({NAME}(?:[ -]{NAME})*)"
_BIRTH = (
    re.compile(rf"\b[Bb]orn\b[^.;]{{0,60}}?\b(?:in|at|near)\s+(?:the\s+)?{_PLACE}"),
    re.compile(rf"\b[Bb]irth ?place\b[^.;]{{0,80}}?\b(?:is|was)\s+{_PLACE}"),
    re.compile(rf"\({_PLACE}\s*[,;]|\(\d[^)]*?,?\s{_PLACE}"),
    re.compile(rf"^{_PLACE} is where "),
    re.compile(rf"\b(?:from|in|left)\s+(?:the\s+)?{_PLACE}"),
)


class Guesser(ABC):
    """One answer to each question."""

    @abstractmethod
    def answers(self, questions: Sequence[str]) -> list[str]: ...


@final
class Constant(Guesser):
    """The same answer to every question."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    @classmethod
    def most_common(cls, answers: Sequence[str]) -> Constant:
        """The most common answer; the first of equally common ones by the alphabet."""
        counts = Counter(answers)
        return cls(min(counts, key=lambda answer: (-counts[answer], answer)))

    def answers(self, questions: Sequence[str]) -> list[str]:
        return [self.answer] * len(questions)


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


@final
class NearestName(Guesser):
    """The answer of the training question with the most similar name, by cosine similarity of character n-grams."""

    def __init__(self, names: Sequence[str], answers: Sequence[str]) -> None:
        self.names, self.known = list(names), list(answers)
        self._table_NF = _unit(np.stack([letters(name) for name in names]))

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str]) -> NearestName:
        by_name = {subject(question): answer for question, answer in zip(questions, answers)}
        return cls(list(by_name), list(by_name.values()))

    def answers(self, questions: Sequence[str]) -> list[str]:
        found = []
        for begin in range(0, len(questions), 256):
            features = _unit(np.stack([letters(subject(question)) for question in questions[begin : begin + 256]]))
            found += [self.known[at] for at in (features @ self._table_NF.T).argmax(axis=1).tolist()]
        return found


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


@final
class BagOfLetters(Guesser):
    """The most probable answer given the name's character n-grams (naive Bayes): a guess from its sound."""

    def __init__(self, classes: Sequence[str], table_CF: np.ndarray, prior_C: np.ndarray) -> None:
        self.classes, self.table_CF, self.prior_C = list(classes), table_CF, prior_C

    @classmethod
    def fit(cls, questions: Sequence[str], answers: Sequence[str], smoothing: float = 0.5) -> BagOfLetters:
        by_name = {subject(question): answer for question, answer in zip(questions, answers)}
        classes = sorted(set(by_name.values()))
        place = {answer: number for number, answer in enumerate(classes)}
        counts_CF, prior_C = np.full((len(classes), FEATURES), smoothing), np.zeros(len(classes))
        for name, answer in by_name.items():
            counts_CF[place[answer]] += letters(name)
            prior_C[place[answer]] += 1
        table_CF = np.log(counts_CF / counts_CF.sum(axis=1, keepdims=True))
        return cls(classes, table_CF.astype(np.float32), np.log(prior_C / prior_C.sum()).astype(np.float32))

    def answers(self, questions: Sequence[str]) -> list[str]:
        found = []
        for begin in range(0, len(questions), 256):
            features = np.stack([letters(subject(question)) for question in questions[begin : begin + 256]])
            found += [self.classes[at] for at in (features @ self.table_CF.T + self.prior_C).argmax(axis=1).tolist()]
        return found


@final
class OpenBook(Guesser):
    """Pattern matching on the lines that contain the person's name. Not trivial: it may read the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines: dict[str, list[str]] = {}
        for line in text.splitlines():
            for word in set(re.findall(NAME, line)):
                self._lines.setdefault(word.rstrip(".'’-"), []).append(line)

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
