"""BLEU and chrF are sacrebleu's; sentences' influences average to the score and spread as the jackknife says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sacrebleu

from glassformer.data.pairs.text_pairs import Pairs
from glassformer.evaluation.results import Units
from glassformer.evaluation.translation_metrics import BLEU, BLEU_LOWER, CHRF, corpus_influences, translation_outcomes

SOURCES = ("eins", "zwei", "drei", "vier", "fünf")
REFERENCES = (
    "The dog runs in the park .",
    "A man rides a bike .",
    "Two girls are playing chess .",
    "A cat .",
    "It is cold today .",
)
GIVEN = (
    "the dog runs in the park .",
    "A man is riding a bike .",
    "Two girls are playing chess .",
    "A dog .",
    "It is warm now .",
)
ITEMS = Pairs("t", SOURCES, REFERENCES, tuple(f"t:{n}" for n in range(5)))


def test_the_mean_of_the_influences_is_sacrebleus_score() -> None:
    expected = {
        BLEU: sacrebleu.corpus_bleu(GIVEN, [REFERENCES]).score,
        BLEU_LOWER: sacrebleu.corpus_bleu(GIVEN, [REFERENCES], lowercase=True).score,
        CHRF: sacrebleu.corpus_chrf(GIVEN, [REFERENCES]).score,
    }
    assert expected[BLEU] < expected[BLEU_LOWER]
    for metric, score in expected.items():
        influences, signature = corpus_influences(metric, GIVEN, REFERENCES)
        assert influences.mean() == pytest.approx(score, abs=1e-9)
        assert "version:" in signature
    without = [
        sacrebleu.corpus_bleu(
            [one for n, one in enumerate(GIVEN) if n != out], [[r for n, r in enumerate(REFERENCES) if n != out]]
        )
        for out in range(5)
    ]
    jackknife = math.sqrt(4 / 5 * sum((one.score - np.mean([w.score for w in without])) ** 2 for one in without))
    influences, _ = corpus_influences(BLEU, GIVEN, REFERENCES)
    assert influences.std(ddof=1) / math.sqrt(5) == pytest.approx(jackknife)


def test_outcomes() -> None:
    losses = Units(np.array([2.0, 4, 6, 1, 7]), np.array([4.0, 4, 4, 2, 6]))
    found = translation_outcomes(ITEMS, GIVEN, losses)
    assert found.figures["loss"].value == 1.0
    assert found.figures["perplexity"].value == pytest.approx(math.e)
    assert found.figures["exact_match"].value == pytest.approx(0.2)
    assert set(found.units) == {"loss", "bleu", "chrf", "exact_match"}
    assert found.details["signatures"]["bleu"].startswith("nrefs:1|case:mixed|")
    assert "loss" not in translation_outcomes(ITEMS, GIVEN).figures


def test_a_perfect_translation_is_a_hundred() -> None:
    found = translation_outcomes(ITEMS, REFERENCES)
    assert [found.figures[name].value for name in ("bleu", "chrf", "exact_match")] == pytest.approx([100.0, 100.0, 1.0])


def test_without_sacrebleu_the_rest_is_measured_and_the_remedy_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = translation_outcomes(ITEMS, GIVEN)
    assert set(found.figures) == {"exact_match"}
    assert "glassformer[translate]" in found.notes[0]
