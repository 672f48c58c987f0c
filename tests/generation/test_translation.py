"""Translations in a batch with caches are those of one source without any; sampling does not depend on the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.generation.beams import BeamRule
from glassformer.generation.sampling import Sampling
from glassformer.generation.translation import TranslationRule, translate, translate_one
from glassformer.model.network import MODELS

V, START, END, PAD = 17, 14, 15, 16


@pytest.fixture(scope="module")
def network() -> torch.nn.Module:
    settings = {
        "width": 24,
        "layers": 2,
        "heads": 3,
        "context": 40,
        "positions": "rotary",
        "head": {"kind": "untied", "bias": True},
    }
    made = MODELS.parse({"kind": "encoder-decoder", **settings}).build(V, seed=3).eval()
    with torch.no_grad():
        for parameter in made.parameters():  # far from the start, where every score is nearly the same
            if parameter.ndim > 1:
                parameter.mul_(6)
        made.head.bias[END] = 1.5  # so that some end early
    return made


SOURCES = [np.array([*np.random.default_rng(n).integers(0, 14, 1 + 5 * n % 13), END]) for n in range(9)]


@pytest.mark.parametrize(("beams", "penalty"), [(1, 1.0), (3, 0.0), (3, 1.0), (4, 0.6)])
def test_a_batch_with_caches_is_one_by_one_without(network: torch.nn.Module, beams: int, penalty: float) -> None:
    search = BeamRule(end_id=END, max_new_tokens=12, beams=beams, banned=[START, PAD], length_penalty=penalty)
    rule = TranslationRule(START, PAD, search)
    together = translate(network, SOURCES, rule, at_once=4)
    assert any(one[0].ended for one in together)
    for source, found in zip(SOURCES, together):
        alone = translate_one(network, source, rule)
        assert [one.ids for one in found] == [one.ids for one in alone]
        np.testing.assert_allclose([one.log_probability for one in found], [one.log_probability for one in alone], atol=1e-4)


def test_a_length_penalty_prefers_longer_ones(network: torch.nn.Module) -> None:
    lengths = {}
    for penalty in (0.0, 2.0):
        search = BeamRule(end_id=END, max_new_tokens=20, beams=4, banned=[START, PAD], length_penalty=penalty)
        lengths[penalty] = sum(len(one[0].ids) for one in translate(network, SOURCES, TranslationRule(START, PAD, search)))
    assert lengths[2.0] > lengths[0.0]


def test_a_sample_is_the_same_in_any_batch(network: torch.nn.Module) -> None:
    search = BeamRule(end_id=END, max_new_tokens=12, banned=[START, PAD])
    rule = TranslationRule(START, PAD, search, Sampling(temperature=1.0), seed=5)
    many, few = (translate(network, SOURCES, rule, at_once=size) for size in (9, 2))
    assert [one[0].ids for one in many] == [one[0].ids for one in few]
    other = translate(network, SOURCES, TranslationRule(START, PAD, search, Sampling(temperature=1.0), seed=50))
    assert [one[0].ids for one in many] != [one[0].ids for one in other]
    best = translate(network, SOURCES, TranslationRule(START, PAD, search, Sampling(temperature=0.0)))
    greedy = translate(network, SOURCES, TranslationRule(START, PAD, search))
    assert [one[0].ids for one in best] == [one[0].ids for one in greedy]
    assert not any(token in (START, PAD, END) for one in many for token in one[0].ids)
