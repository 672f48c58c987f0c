"""Labelled texts that are wrong: planted contradictions, planted wrong labels, copies, a text in another script."""

from __future__ import annotations

import random

import numpy as np

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.label_quality import contradictions, label_quality, scripts, suspects

NAMES = ("billing", "shipping", "tech")
WORDS = ("invoice money card refund charge", "parcel courier box late door", "login crash screen error page")


def planted(count: int, share: float, seed: int = 1) -> tuple[LabelledTexts, set[str]]:
    """Texts of two words of their class among four common ones; ``share`` of the labels are wrong."""
    rng = random.Random(seed)
    texts, labels, wrong = [], [], set()
    for number in range(count):
        label = rng.randrange(3)
        common = rng.choices(["the", "a", "my", "it", "was", "not", "again", "please", "order", "week"], k=4)
        words = [*rng.choices(WORDS[label].split(), k=2), *common, str(number)]
        rng.shuffle(words)
        texts.append(" ".join(words))
        if rng.random() < share:
            wrong.add(f"t:{number}")
            label = (label + rng.randrange(1, 3)) % 3
        labels.append(label)
    ids = tuple(f"t:{number}" for number in range(count))
    return LabelledTexts("t", tuple(texts), None, np.array(labels), ids, NAMES), wrong


def test_a_planted_tenth_is_found() -> None:
    items, wrong = planted(600, 0.1)
    found = {one["id"] for one in suspects(items)}
    assert len(found & wrong) / len(found) > 0.9  # precision
    assert len(found & wrong) / len(wrong) > 0.9  # recall
    first = suspects(items)[0]
    assert first["probability_of_other"] > first["probability_of_label"]


def test_clean_labels_have_few_suspects() -> None:
    assert len(suspects(planted(400, 0.0)[0])) < 8


def test_contradictions_are_found_up_to_case_and_spacing() -> None:
    texts = ("It broke", "it  BROKE", "fine", "fine")
    items = LabelledTexts("t", texts, None, np.array([0, 1, 2, 2]), ("t:1", "t:2", "t:3", "t:4"), NAMES)
    (one,) = contradictions(items)
    assert (one["ids"], one["labels"]) == (["t:1", "t:2"], ["billing", "shipping"])
    found = label_quality(items)
    assert found["copies"] == 2
    assert found["classes"] == {"billing": 1, "shipping": 1, "tech": 2}
    assert found["suspects"] == []  # too few texts to fit anything


def test_a_text_in_another_script_is_named() -> None:
    items, _ = planted(60, 0.0)
    strange = LabelledTexts(
        "t", (*items.texts, "где моя посылка"), None, np.append(items.labels, 1), (*items.ids, "t:60"), NAMES
    )
    found = scripts(strange)
    assert found["texts_in_rare_scripts"] == ["t:60"]
    assert set(found["shares"]) == {"LATIN", "CYRILLIC"}
