"""A model's decoder is used again where it still fits, gives the same ids then, and keeps nothing alive."""

from __future__ import annotations

import gc
from weakref import ref

import pytest
import torch

from glassformer.generation.cuda import decoder
from glassformer.generation.cuda.decoder import run_cached_decoder
from glassformer.generation.sampling import Sampling
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

VOCABULARY, CONTEXT = 23, 18
SETTINGS = {"rows": 4, "capacity": CONTEXT}


def run(model, sequences, sampling=Sampling(), **settings) -> list[list[int]]:  # noqa: B008 - frozen
    with torch.no_grad():
        run_cached_decoder(model, sampling, sequences, **SETTINGS | settings)
    return [sequence.new_ids for sequence in sequences]


def cached_decoder(store, model):
    return store[model][1]


def test_the_same_decoder_gives_the_same_ids_again(model, make_sequences, by_reference, eager):
    sampling = Sampling(temperature=0.8, top_k=7, repetition_penalty=1.2)
    expected = by_reference(model, make_sequences(11), sampling)
    assert run(model, make_sequences(11), sampling) == expected
    first = cached_decoder(eager, model)
    assert run(model, make_sequences(11), sampling) == expected
    assert cached_decoder(eager, model) is first


@pytest.mark.parametrize("other", [{"rows": 3}, {"capacity": CONTEXT - 1}, {"sampling": Sampling(temperature=0)}])
def test_another_job_gets_another_decoder(model, make_sequences, eager, other):
    run(model, make_sequences(1, new=3))
    first = cached_decoder(eager, model)
    run(model, make_sequences(1, new=3), **other)
    assert cached_decoder(eager, model) is not first


def test_a_sequence_generated_while_another_is_running_gets_a_decoder_of_its_own(model, make_sequences, by_reference, eager):
    expected, inner = by_reference(model, make_sequences(2, new=5), Sampling()), []

    def generate_another(row: int, token: int) -> None:
        if not inner:
            inner.append(None)
            inner[0] = run(model, make_sequences(2, new=5))

    assert run(model, make_sequences(2, new=5, on_token=generate_another)) == expected
    assert inner == [expected]


@pytest.mark.parametrize("change", ["weight", "buffer", "module", "inference"])
def test_a_model_that_was_changed_gets_another_decoder(make_sequences, by_reference, eager, change: str):
    mine = build_model(ModelConfig(width=24, heads=3, context=CONTEXT, positions="rotary"), VOCABULARY, seed=2).eval()
    run(mine, make_sequences(1, new=3))
    first = cached_decoder(eager, mine)
    if change == "weight":
        mine.final_norm.weight = torch.nn.Parameter(2 * mine.final_norm.weight.detach())  # a graph reads the old one
    elif change == "buffer":
        name = next(name for name, _ in mine.positions.named_buffers())
        setattr(mine.positions, name, getattr(mine.positions, name).clone())
    elif change == "module":
        mine.blocks[0].feedforward.activation = torch.nn.Tanh()
    with torch.inference_mode(change == "inference"):
        assert run(mine, make_sequences(1, new=3)) == by_reference(mine, make_sequences(1, new=3), Sampling())
    assert cached_decoder(eager, mine) is not first


def test_what_is_large_is_not_cached(model, make_sequences, eager, monkeypatch):
    monkeypatch.setattr(decoder, "LARGEST_CACHED", 1)
    run(model, make_sequences(1, new=3))
    assert len(eager) == 0


def test_nothing_keeps_a_model_or_its_cache_alive(make_sequences, eager):
    mine = build_model(ModelConfig(width=24, heads=3, context=CONTEXT), VOCABULARY, seed=2).eval().requires_grad_(False)
    gc.disable()  # freed at once, without the collector of rings
    try:
        run(mine, make_sequences(2, new=3))
        buffer = ref(cached_decoder(eager, mine).cache.layers[0]._buffers["key"])
        run(mine, make_sequences(2, new=3), rows=1)
        assert buffer() is None
    finally:
        gc.enable()
    assert len(eager) == 1
    del mine
    gc.collect()
    assert len(eager) == 0
