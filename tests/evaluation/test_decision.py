"""Temperatures, thresholds and distances: cases on paper, and the laws they obey."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.decision import NEAREST, Reference, Trigrams, fit_temperature, tempered
from glassformer.foundation.errors import UsageError

CLASSES, WIDTH = 3, 7


def reference(confidence: list[float], right: list[int]) -> Reference:
    eye = np.eye(WIDTH)
    usual, strange = np.array([[0.2, 0.1], [1.0, 0.5]]), np.array([0.0, 1.0, 2.0, 3.0])
    known = Trigrams.of(["the box"])
    return Reference(
        5, 1.0, np.array(confidence), np.array(right, bool), np.zeros(WIDTH), eye, known, ("LATIN",), usual, strange
    )


def test_a_threshold_for_a_precision_by_hand() -> None:
    found = reference([0.9, 0.8, 0.8, 0.7, 0.6], [1, 1, 0, 1, 0])
    assert found.for_precision(1.0).confidence == 0.9
    assert found.for_precision(0.75).confidence == 0.7  # 3 of 4
    assert found.for_precision(0.75).precision["value"] == 0.75
    assert found.for_precision(0.6).confidence == 0.6  # equal confidences are not parted: 2 of 3 are right from 0.8 on
    assert found.for_coverage(0.6).coverage["value"] == 0.6
    assert found.for_coverage(1.0).confidence == 0.6
    with refused(UsageError, "precision-not-reached"):
        reference([0.9, 0.8], [0, 1]).for_precision(0.9)


def test_the_temperature_of_scores_that_are_three_times_too_large_is_three() -> None:
    rng = np.random.default_rng(1)
    scores_NC = rng.normal(size=(20_000, CLASSES))
    chances_NC = tempered(scores_NC, 1.0)
    labels_N = np.array([rng.choice(CLASSES, p=row) for row in chances_NC])
    assert fit_temperature(3 * scores_NC, labels_N) == pytest.approx(3.0, rel=0.05)
    assert tempered(3 * scores_NC, 3.0) == pytest.approx(chances_NC)


def test_a_perfect_split_makes_no_answer_certain() -> None:
    scores_NC = np.log(np.array([[0.9, 0.05, 0.05]] * 8))
    found = tempered(scores_NC, fit_temperature(scores_NC, np.zeros(8, int)))
    assert found[:, 0] == pytest.approx(9 / 10, abs=0.01)  # (n + 1) / (n + 2)


def test_far_from_the_training_texts_is_far() -> None:
    rng = np.random.default_rng(2)
    center = 3 * np.ones(WIDTH)
    train_MD = center + rng.normal(size=(300, WIDTH)) * [1, 1, 0.01, 0.01, 0.01, 0.01, 0.01]
    held_out_ND = center + rng.normal(size=(200, WIDTH)) * [1, 1, 0.01, 0.01, 0.01, 0.01, 0.01]
    scores_NC = rng.normal(size=(200, CLASSES))
    texts = tuple(f"the box {n} came late" for n in range(200))
    held_out = LabelledTexts("t", texts, None, rng.integers(CLASSES, size=200), texts, ("a", "b", "c")[:CLASSES])
    found = Reference.fit(4, scores_NC, held_out, held_out_ND, train_MD)
    assert (found.strangeness(held_out_ND, texts) > found.limit).mean() == pytest.approx(0.01, abs=0.006)
    strange = center + np.array([[0, 0, 0, 2.0, 0, 0, 0]])
    assert found.strangeness(strange, ["the box"])[0] > found.limit
    assert found.typicality(found.strangeness(strange, ["the box"]))[0] == 0.0
    assert not found.foreign("где")  # no texts were given, so no script is known
    again = Reference.from_arrays(found.arrays())
    assert again is not None
    assert again.strangeness(strange, ["the box"]) == found.strangeness(strange, ["the box"])
    assert again.step == 4


def test_the_spelling_of_another_language_is_surprising() -> None:
    english = [f"the {thing} came late and the {part} was wet" for thing in ("box", "parcel") for part in ("lid", "letter")]
    rng, vectors_ND = np.random.default_rng(3), np.ones((40, WIDTH))
    vectors_ND = vectors_ND + rng.normal(size=vectors_ND.shape)
    texts = tuple(f"{english[n % 4]} {n}" for n in range(40))
    held_out = LabelledTexts("t", texts, None, np.zeros(40, int), texts, ("a", "b"))
    found = Reference.fit(4, rng.normal(size=(40, 2)), held_out, vectors_ND, vectors_ND, texts)
    assert not (found.strangeness(vectors_ND, texts) > found.limit).any()  # of 40 texts none is among the strangest 1 %
    usual, german = found.strangeness(vectors_ND[:2], [f"{english[1]} 7", "das Paket kam zu spät an und war nass"])
    assert usual < found.limit < german
    by_hand = Trigrams.of(["ab"])  # trigrams of "  ab ": "  a", " ab", "ab "; 4 letters with the unseen one
    assert by_hand.surprise("ab") == pytest.approx(np.log((1 + 0.5 * 4) / 1.5))
    again = Reference.from_arrays(found.arrays())
    assert again is not None
    assert again.trigrams.surprise("das Paket") == found.trigrams.surprise("das Paket")


def test_a_script_that_was_not_seen() -> None:
    found = reference([0.9], [1])
    assert found.foreign("πού είναι το δέμα μου")
    assert found.foreign("order: 我的包裹在哪里呢")  # 8 of 13 letters
    assert not found.foreign("the naïve café: 你")
    assert not found.foreign("12345")
    again = Reference.from_arrays(found.arrays())
    assert again is not None
    assert again.scripts == ("LATIN",)


def test_the_distance_by_hand() -> None:
    found = reference([0.9], [1])
    vector = np.zeros((1, WIDTH))
    vector[0, :2] = 3.0, 4.0
    assert found.distances(vector)[0] == pytest.approx(1 - (0.6 + 0.8 + 0.0) / NEAREST)
