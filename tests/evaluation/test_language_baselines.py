"""Trivial models: probabilities by hand, that they sum to one, and the sentence when a model is no better."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.evaluation import language_baselines as baselines
from glassformer.evaluation.language_baselines import Bigram, Uniform, Unigram, trivial_baselines
from glassformer.evaluation.language_metrics import DocumentLosses, EvaluatedText, language_outcomes
from glassformer.evaluation.results import not_better_than_baseline
from glassformer.foundation.errors import DataError
from glassformer.foundation.metrics import LOSS

V = 5
TRAINING = np.array([0, 1, 0, 2, 0, 1, 1, 4])


def test_uniform_by_hand() -> None:
    np.testing.assert_allclose(Uniform(7).token_losses(np.array([3, 1, 6])), [math.log(7)] * 2)


def test_unigram_by_hand() -> None:
    # counts 3 3 1 0 1, N = 8, four distinct of five: (c + 4/5) / 12
    np.testing.assert_allclose(Unigram.fit(TRAINING, V).table_V, np.array([3.8, 3.8, 1.8, 0.8, 1.8]) / 12)


def test_bigram_by_hand() -> None:
    unigram = Unigram.fit(TRAINING, V)
    bigram = Bigram.fit(TRAINING, unigram)
    p = unigram.table_V
    # pairs 01 10 02 20 01 11 14: after 0 come 1 1 2; after 1 come 0 1 4; after 2 comes 0; after 3 and 4 nothing
    expected = [(2 + 2 * p[1]) / 5, (0 + 2 * p[3]) / 5, (1 + 3 * p[4]) / 6, (0 + 1 * p[1]) / 2, p[0], p[2]]
    found = bigram.probabilities(np.array([0, 0, 1, 2, 3, 4]), np.array([1, 3, 4, 1, 0, 2]))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("vocabulary", [V, 3000])
@pytest.mark.parametrize("training", [TRAINING, TRAINING[:1], TRAINING[:0]])
def test_every_distribution_sums_to_one(vocabulary: int, training: np.ndarray) -> None:
    everything = np.arange(vocabulary)
    for baseline in trivial_baselines(training, vocabulary).values():
        for previous in (0, 1, 3, vocabulary - 1):
            found = baseline.probabilities(np.full(vocabulary, previous), everything)
            assert found.sum() == pytest.approx(1.0, abs=1e-12)


def test_counting_in_chunks_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    training, tokens = rng.zipf(1.5, 997) % 23, rng.zipf(1.5, 301) % 23
    whole = {name: baseline.token_losses(tokens) for name, baseline in trivial_baselines(training, 23).items()}
    monkeypatch.setattr(baselines, "CHUNK", 41)
    for name, baseline in trivial_baselines(training.astype(np.uint16), 23).items():
        np.testing.assert_allclose(baseline.token_losses(tokens.astype(np.uint16)), whole[name], rtol=1e-13)
        assert len(whole[name]) == 300


def test_too_many_training_tokens_are_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "CHUNK", 10)
    monkeypatch.setattr(baselines, "COUNTED", 50)
    training = np.repeat(np.arange(10), 10)  # ten chunks, each of one id; every second one is counted
    np.testing.assert_allclose(Unigram.fit(training, 10).table_V, (10 * (np.arange(10) % 2 == 0) + 0.5) / 55)


def test_more_knowledge_is_better_on_text_like_the_training_text() -> None:
    rng = np.random.default_rng(8)
    chain = rng.dirichlet(np.full(11, 0.3), size=11)
    tokens = np.zeros(4000, np.int64)
    for i in range(1, 4000):
        tokens[i] = rng.choice(11, p=chain[tokens[i - 1]])
    losses = {name: b.token_losses(tokens[3000:]).mean() for name, b in trivial_baselines(tokens[:3000], 11).items()}
    assert losses["uniform"] > losses["unigram"] + 0.02 > losses["bigram"] + 0.5


def test_ids_beyond_the_vocabulary_are_refused() -> None:
    with refused(DataError, "id-outside-vocabulary", "id 4", "0 to 3"):
        Unigram.fit(TRAINING, 4)


def test_documents_sum_to_the_tokens() -> None:
    text = EvaluatedText(np.array([1, 0, 2, 2, 1, 4]), np.array([0, 2]))
    baseline = Unigram.fit(TRAINING, V)
    np.testing.assert_allclose(baseline.document_losses(text).nats.sum(), baseline.token_losses(text.tokens).sum())


def losses(nats: list[float]) -> DocumentLosses:
    text = EvaluatedText(np.zeros(13, np.int64), np.array([0, 5, 9]))  # 4, 4 and 4 predicted tokens
    return DocumentLosses.collect(np.repeat(np.array(nats) / 4, 4), text)


def sentence(model: list[float], baselines: dict[str, list[float]]) -> str | None:
    beside = {name: language_outcomes(losses(nats)) for name, nats in baselines.items()}
    return not_better_than_baseline(language_outcomes(losses(model)), beside, LOSS)


def test_the_sentence() -> None:
    trivial = {"uniform": [9.0, 9.0, 9.0], "bigram": [8.0, 4.0, 6.0]}
    assert sentence([7.0, 3.1, 5.05], trivial) is None  # a steady gain, though documents differ
    worse = sentence([9.0, 4.0, 6.0], trivial)
    assert worse is not None
    assert worse.startswith("The model is not better than the bigram baseline")
    assert "1.5833 against 1.5000" in worse
    unclear = sentence([2.0, 5.0, 6.0], trivial)
    assert unclear is not None
    assert "not clearly better" in unclear
    assert "gives no loss" in (sentence([np.nan, 1.0, 1.0], trivial) or "")
    assert sentence([1.0, 1.0, 1.0], {}) is None


def test_they_are_kept_as_arrays_and_read_back() -> None:
    for name, baseline in trivial_baselines(TRAINING, V).items():
        again = type(baseline).from_arrays(baseline.arrays())
        np.testing.assert_array_equal(
            again.token_losses(np.array([1, 0, 2, 2, 1, 4])), baseline.token_losses(np.array([1, 0, 2, 2, 1, 4])), name
        )
    assert {name: one.trivial for name, one in trivial_baselines(TRAINING, V).items()} == {
        "uniform": True,
        "unigram": True,
        "bigram": False,
    }
