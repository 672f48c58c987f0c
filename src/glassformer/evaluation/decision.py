"""What a classifier's probabilities are worth: a temperature, thresholds for abstaining, and whether a text is unlike all seen.

Fitted on held-out texts: the temperature divides the scores (Guo et al. 2017, with Platt's targets, so that a perfect
validation split does not make every answer certain); a threshold is chosen for a wanted precision or coverage. How strange a
text is adds up two things, each in units of what is usual among the held-out texts: the distance of its vector from the nearest
training texts (Sun et al. 2022), which sees other topics, and how surprising its spelling is by the trigrams of characters of
the training texts, which sees other languages. A text is unlike anything seen if it is stranger than 99 % of the held-out
texts, if the tokenizer knows fewer than half of its tokens, or if most of its letters are of a script that the training texts
do not have. Imports no torch.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, final

import numpy as np

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.interval_estimates import wilson
from glassformer.evaluation.multilabel import best_thresholds
from glassformer.foundation.errors import UsageError

SCHEMA = 3
_ARRAYS = ("confidence_N", "right_N", "center_D", "known_MD", "usual_22", "strange_N", "thresholds_C")
NEAREST = 3
"""Training texts whose mean distance counts."""
USUAL = 0.99
"""The share of held-out texts that are not called unlike: one in a hundred is a false alarm."""
MOST_UNKNOWN = 0.5
ADDED = 0.5
"""To the count of each trigram, so that one that was never seen has a probability."""
LONGEST = 20_000
"""Characters of a text whose spelling is looked at."""
ONE_DEVIATION = 0.84
"""The quantile that is one standard deviation above the median of a normal distribution."""
COVERED = 0.9
"""The share of held-out numbers within the interval of a prediction."""
FEWEST_LETTERS = 0.001
"""The share of the training letters from which a script is known."""
_COLDEST, _HOTTEST = 1 / 20, 20.0


@final
@dataclass(frozen=True)
class Threshold:
    """Answers below ``confidence`` are withheld. ``precision`` and ``coverage``: what that gave on the held-out texts."""

    confidence: float
    precision: dict[str, Any]
    coverage: dict[str, Any]

    def sentence(self) -> str:
        low, high = self.precision["low"], self.precision["high"]
        return (
            f"Answers below {self.confidence:.3f} are withheld: on validation {self.coverage['value']:.1%} of "
            f"{self.coverage['n']} texts were answered, {self.precision['value']:.1%} [{low:.1%}, {high:.1%}] of them right."
        )


@final
@dataclass(frozen=True)
class Trigrams:
    """The spelling of texts: how often each character follows two others, in lower case."""

    counts: Mapping[str, int]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        return cls(Counter(three for text in texts for three in _trigrams(text)))

    @cached_property
    def _pairs(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for three, count in self.counts.items():
            found[three[:2]] += count
        return found

    @cached_property
    def _letters(self) -> int:
        return len({three[2] for three in self.counts}) + 1  # and one that was never seen

    def surprise(self, text: str) -> float:
        """Nats for each character, with half a count added to each; 0 where no training text is known."""
        if not self.counts:
            return 0.0
        pairs, letters = self._pairs, self._letters
        nats = [
            math.log((pairs[three[:2]] + ADDED * letters) / (self.counts.get(three, 0) + ADDED)) for three in _trigrams(text)
        ]
        return sum(nats) / max(1, len(nats))


def _trigrams(text: str) -> list[str]:
    spaced = f"  {' '.join(text[:LONGEST].lower().split())} "
    return [spaced[at : at + 3] for at in range(len(spaced) - 2)]


@final
@dataclass(frozen=True)
class Reference:
    """The held-out texts and the training texts as a classifier sees them."""

    step: int
    temperature: float
    confidence_N: np.ndarray  # of the held-out texts, with the temperature
    right_N: np.ndarray
    center_D: np.ndarray
    known_MD: np.ndarray  # training texts, of length 1
    trigrams: Trigrams
    scripts: tuple[str, ...]
    """The scripts of the training texts."""
    usual_22: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Of distance and surprise: the median of the held-out texts, and how far above it the upper sixth begins."""
    strange_N: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """How strange the held-out texts are, in order."""
    thresholds_C: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Of several labels, the score from which on each is given."""
    half_width: float = np.nan
    """Of numbers: 90 % of the held-out ones are within this distance of their prediction."""

    @classmethod
    def fit(
        cls,
        step: int,
        scores_NC: np.ndarray,
        held_out: LabelledTexts,
        held_out_ND: np.ndarray,
        train_MD: np.ndarray,
        texts: Sequence[str] = (),
    ) -> Self:
        """``scores_NC``: of the held-out texts; the vectors of these and of training texts. ``texts``: the training texts, for
        their letters."""
        temperature, confidence_N, right_N, thresholds_C, half_width = 1.0, np.zeros(0), np.zeros(0, bool), np.zeros(0), np.nan
        if held_out.target == "class":
            temperature = fit_temperature(scores_NC, held_out.labels)
            probabilities_NC = tempered(scores_NC, temperature)
            confidence_N, right_N = probabilities_NC.max(axis=1), probabilities_NC.argmax(axis=1) == held_out.labels
        elif held_out.target == "several":
            thresholds_C = best_thresholds(scores_NC, held_out.labels > 0)
        else:
            assert held_out.scale is not None
            error_N = np.abs(scores_NC[:, 0] * held_out.scale[1] + held_out.scale[0] - held_out.labels)
            rank = int(np.ceil(COVERED * (len(error_N) + 1))) - 1  # split conformal prediction (Vovk et al. 2005)
            half_width = float(np.sort(error_N)[min(rank, len(error_N) - 1)])
        center_D = train_MD.mean(axis=0)
        known_MD = _unit(train_MD - center_D).astype(np.float16)
        letters = Counter(script_of(letter) for text in texts for letter in text if letter.isalpha())
        known = tuple(sorted(name for name, count in letters.items() if count >= FEWEST_LETTERS * sum(letters.values())))
        seen = temperature, confidence_N, right_N, center_D, known_MD, Trigrams.of(texts), known
        draft = cls(step, *seen, thresholds_C=thresholds_C, half_width=half_width)
        own = [held_out.text_of(at) for at in range(len(held_out))]
        parts_2N = draft._parts(held_out_ND, own)
        middle_2 = np.median(parts_2N, axis=1)
        spread_2 = np.maximum(np.quantile(parts_2N, ONE_DEVIATION, axis=1) - middle_2, 1e-6)
        draft = replace(draft, usual_22=np.stack([middle_2, spread_2], axis=1))
        return replace(draft, strange_N=np.sort(draft.strangeness(held_out_ND, own)))

    @cached_property
    def limit(self) -> float:
        """How strange a text is at least that is called unlike anything seen."""
        return float(np.quantile(self.strange_N, USUAL, method="higher"))  # of few texts the strangest, never below it

    def _parts(self, vectors_ND: np.ndarray, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self.distances(vectors_ND), np.array([self.trigrams.surprise(text) for text in texts])])

    def strangeness(self, vectors_ND: np.ndarray, texts: Sequence[str]) -> np.ndarray:
        """float64 [N]: distance and surprise, each as far as it is above its median, in usual deviations, added up."""
        above_2N = (self._parts(vectors_ND, texts) - self.usual_22[:, :1]) / self.usual_22[:, 1:]
        return np.asarray(np.maximum(above_2N, 0).sum(axis=0))

    def typicality(self, strange_N: np.ndarray) -> np.ndarray:
        """float64 [N]: the share of the held-out texts that are at least as strange."""
        return 1.0 - np.searchsorted(self.strange_N, strange_N, side="left") / len(self.strange_N)

    def foreign(self, text: str) -> bool:
        """Whether most letters of a text are of a script that the training texts do not have."""
        letters = [script_of(letter) for letter in text if letter.isalpha()]
        return bool(self.scripts) and sum(script not in self.scripts for script in letters) * 2 > len(letters)

    def distances(self, vectors_ND: np.ndarray) -> np.ndarray:
        """float64 [N]: one minus the cosine, the mean of the nearest training texts."""
        similar_NM = _unit(vectors_ND - self.center_D).astype(np.float32) @ self._known_DM
        nearest = min(NEAREST, similar_NM.shape[1])
        return 1.0 - np.partition(similar_NM, -nearest, axis=1)[:, -nearest:].mean(axis=1).astype(np.float64)

    @cached_property
    def _known_DM(self) -> np.ndarray:
        return np.ascontiguousarray(self.known_MD.T.astype(np.float32))

    def for_precision(self, wanted: float) -> Threshold:
        """The lowest threshold at which at least the share ``wanted`` of the answers is right."""
        order = np.argsort(-self.confidence_N, kind="stable")
        sure, right = self.confidence_N[order], self.right_N[order]
        share = np.cumsum(right) / np.arange(1, len(right) + 1)
        last_of_ties = np.append(sure[1:] < sure[:-1], True)  # a threshold cannot part equal confidences
        enough = np.flatnonzero((share >= wanted) & last_of_ties)
        if not len(enough):
            raise UsageError(
                f"--precision {wanted} is reached at no threshold on the {len(right)} validation texts; the most confident "
                f"answers are {share[last_of_ties].max():.1%} right at best. Ask for less.",
                reason="precision-not-reached",
            )
        return self._at(float(sure[enough[-1]]))

    def for_coverage(self, wanted: float) -> Threshold:
        """The highest threshold at which at least the share ``wanted`` of the texts is answered."""
        sure = np.sort(self.confidence_N)[::-1]
        return self._at(float(sure[max(0, int(np.ceil(wanted * len(sure))) - 1)]))

    def _at(self, confidence: float) -> Threshold:
        answered = self.confidence_N >= confidence
        precision = wilson(int(self.right_N[answered].sum()), int(answered.sum()))
        return Threshold(confidence, precision.to_dict(), wilson(int(answered.sum()), len(answered)).to_dict())

    def arrays(self) -> dict[str, np.ndarray]:
        numbers = np.array([SCHEMA, self.step, self.temperature, self.half_width])
        scripts, threes = (
            np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
            for text in ("\n".join(self.scripts), "".join(self.trigrams.counts))
        )
        counts = np.array(list(self.trigrams.counts.values()), dtype=np.int32)
        return {
            "numbers": numbers,
            "scripts": scripts,
            "trigrams": threes,
            "trigram_counts": counts,
            **{name: getattr(self, name) for name in _ARRAYS},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self | None:
        """The inverse of ``arrays``; None for those of another version."""
        schema, *numbers = arrays["numbers"].tolist()
        if schema != SCHEMA:
            return None
        step, temperature, half_width = numbers
        signs = arrays["trigrams"].tobytes().decode("utf-8", "surrogatepass")
        threes = (signs[at : at + 3] for at in range(0, len(signs), 3))
        trigrams = Trigrams(dict(zip(threes, arrays["trigram_counts"].tolist())))
        scripts = tuple(arrays["scripts"].tobytes().decode().split())
        named = {name: arrays[name] for name in _ARRAYS}
        return cls(int(step), temperature, **named, trigrams=trigrams, scripts=scripts, half_width=half_width)


def script_of(letter: str) -> str:
    """The script of a letter: the first word of its Unicode name."""
    return "LATIN" if letter.isascii() else unicodedata.name(letter, "UNKNOWN").split()[0]


def tempered(scores_NC: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities with the scores divided by ``temperature``."""
    scores_NC = scores_NC / temperature
    odds_NC = np.exp(scores_NC - scores_NC.max(axis=1, keepdims=True))
    return np.asarray(odds_NC / odds_NC.sum(axis=1, keepdims=True))


def fit_temperature(scores_NC: np.ndarray, labels_N: np.ndarray) -> float:
    """The temperature of the largest likelihood of (n + 1) / (n + 2) for the true label, the rest shared by the others."""
    from scipy.optimize import minimize_scalar

    count, classes = scores_NC.shape
    true = (count + 1) / (count + 2)
    targets_NC = np.full((count, classes), (1 - true) / max(1, classes - 1))
    targets_NC[np.arange(count), labels_N] = true

    def cost(log_temperature: float) -> float:
        divided_NC = scores_NC / np.exp(log_temperature)
        total_N = np.logaddexp.reduce(divided_NC, axis=1)
        return -float((targets_NC * (divided_NC - total_N[:, None])).sum())

    found = minimize_scalar(cost, bounds=(np.log(_COLDEST), np.log(_HOTTEST)), method="bounded")
    return float(np.exp(found.x))


def _unit(vectors_ND: np.ndarray) -> np.ndarray:
    return vectors_ND / np.maximum(np.linalg.norm(vectors_ND, axis=1, keepdims=True), 1e-12)
