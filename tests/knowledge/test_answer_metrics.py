"""The figures of answers: by hand, with people who are nowhere, without answers to compare with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.foundation.errors import DataError
from glassformer.knowledge.answer_metrics import (
    ANSWER_METRICS,
    AnswerSet,
    answer_outcomes,
    pull_of_sound,
    retrieved_or_made_up,
    sound_of_answers,
)
from glassformer.knowledge.questions import Questions
from glassformer.knowledge.worlds import WorldConfig


def questions(many: int, prefix: str = "P") -> Questions:
    asked = tuple(f"Where was {prefix}{n} born?" for n in range(many))
    return Questions("validation", asked, tuple(f"Q{n}" for n in range(many)), tuple(range(1, many + 1)))


def test_right_to_the_letter_with_an_interval_and_by_unit():
    items = questions(4)
    found = answer_outcomes(items, AnswerSet(["Q0", "q1", "Q2", ""], np.array([0.9, 0.8, 0.7, 0.1])))
    assert found.figures["exact_match"].value == 0.5
    assert found.units["exact_match"].sums.tolist() == [1, 0, 1, 0]
    assert found.ids == items.ids
    assert found.details["answers"][1] == {
        "question": "Where was P1 born?", "truth": "Q1", "answer": "q1", "right": False, "confidence": 0.8
    }  # fmt: skip
    assert found.figures["coverage_area"].value == pytest.approx((1 + 1 / 2 + 2 / 3 + 1 / 2) / 4)
    assert found.figures["confidence"].value == pytest.approx(0.625)
    guessed = answer_outcomes(items, AnswerSet(["Q0"] * 4))
    assert list(guessed.figures) == ["exact_match"]


def test_questions_without_answers_cannot_be_judged():
    with refused(DataError, "no-answers", "--predictions"):
        answer_outcomes(replace(questions(2), answers=None), AnswerSet(["a", "b"]))


def test_people_who_are_nowhere():
    rng = np.random.default_rng(0)
    items = replace(questions(200), nowhere=replace(questions(150, "N"), answers=None))
    right = rng.random(200) < 0.9
    said = AnswerSet(
        [f"Q{n}" if ok else "?" for n, ok in enumerate(right)], rng.uniform(0.5, 1, 200), {"read": rng.normal(3, 1, 200)}
    )
    nobody = AnswerSet(["Q0"] * 150, rng.uniform(0, 1, 150), {"read": rng.normal(-3, 1, 150)})
    found = answer_outcomes(items, said, nobody)
    assert found.figures["nowhere_confident"].value == pytest.approx(0.5, abs=0.12)
    assert found.figures["nowhere_abstained"].value == pytest.approx(0.55, abs=0.12)
    assert found.figures["nowhere_unread"].value > 0.95
    assert found.figures["retrieved_auc"].value > 0.85
    assert set(found.figures) <= {metric.name for metric in ANSWER_METRICS}
    assert "sound_pull" not in found.figures  # only a world says what a name sounds like


def test_the_sound_of_answers_in_a_world(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    world = WorldConfig(people=1000, sound=1.0).files()
    people = [person for person in world.people() if person["group"] == "nowhere"]
    asked = tuple(f"Where was {person['name']} born?" for person in people)
    items = Questions("nowhere", asked, None, tuple(range(1, len(asked) + 1)), world=world)
    places = world.places()
    by_sound = sound_of_answers(items, [places[int(person["people"])][0] for person in people])
    assert by_sound["answers"].value == pytest.approx(0.8, abs=0.08)
    assert by_sound["truth"].value == pytest.approx(0.8, abs=0.08)
    same = sound_of_answers(items, [places[0][0]] * len(people))["answers"]
    assert same.low <= 0 <= same.high
    assert sound_of_answers(items, ["no such place"] * len(people))["answers"].value == 0


KNOWN, NOBODY = [f"k{n}" for n in range(300)], [f"n{n}" for n in range(200)]


def test_a_score_that_knows_and_one_that_does_not():
    rng = np.random.default_rng(0)
    right = (rng.random(300) < 0.8).astype(float)
    known = {
        "noise": rng.normal(size=300),
        "read": np.full(300, 2.0) + rng.normal(size=300),
        "sure": 3 * right + rng.normal(size=300),
    }
    nowhere = {"noise": rng.normal(size=200), "read": rng.normal(size=200) - 2, "sure": rng.normal(size=200) + 1}
    found = retrieved_or_made_up(known, right, KNOWN, nowhere, NOBODY)
    area = {name: one["value"] for name, one in found["auc"].items()}
    assert area["noise"] == pytest.approx(0.5, abs=0.1)
    assert area["together"] > max(area["read"], area["sure"])
    assert found["abstention"]["nowhere_abstained"]["value"] > 0.9
    assert found["abstention"]["known_answered"]["value"] == pytest.approx(0.9, abs=0.07)
    assert sum(found["tested_on"].values()) < 500


def test_where_nothing_is_right_there_is_nothing_to_judge():
    scores = {"a": np.zeros(300)}
    assert retrieved_or_made_up(scores, np.zeros(300), KNOWN, {"a": np.zeros(200)}, NOBODY) is None


def slow(sounds, regions) -> float:
    """Agreement, less that over all pairs of different people."""
    n = len(sounds)
    agree = np.mean([s == r for s, r in zip(sounds, regions)])
    dealt = np.mean([sounds[i] == regions[j] for i in range(n) for j in range(n)])
    return (agree - dealt) * n / (n - 1)


def test_by_hand_and_against_the_slow_form():
    sounds, regions = [0, 0, 1, 1, 2], [0, 1, 1, 1, None]
    assert pull_of_sound(sounds, regions).value == pytest.approx(slow(sounds, regions))
    assert pull_of_sound([0, 1], [0, 1]).value is None


def test_the_interval_is_the_jackknife():
    rng = np.random.default_rng(0)
    sounds = rng.integers(0, 4, 30).tolist()
    regions = [int(one) if rng.random() < 0.5 else int(rng.integers(0, 4)) for one in sounds]
    found = pull_of_sound(sounds, regions)
    without = [slow(sounds[:i] + sounds[i + 1 :], regions[:i] + regions[i + 1 :]) for i in range(30)]
    error = np.sqrt(29 / 30 * np.sum((np.array(without) - np.mean(without)) ** 2))
    assert (found.high - found.low) / 2 == pytest.approx(2.0452296 * error, rel=1e-5)


@pytest.mark.parametrize("pull", [0.0, 0.4, 1.0])
def test_the_pull_that_is_there_is_found(pull):
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        sounds = rng.integers(0, 5, 150)
        regions = np.where(rng.random(150) < pull, sounds, rng.integers(0, 5, 150))
        found = pull_of_sound(sounds.tolist(), regions.tolist())
        inside += found.low <= 0.8 * pull <= found.high
    assert inside / 200 > 0.91
