"""Beam search: the batch with a KV cache against the reference implementation, and probabilities by hand."""

from __future__ import annotations

import json
import math

import pytest
import torch
from tests.refusals import refused

import glassformer.generation.beams as beams_module
from glassformer.foundation.errors import DataError, UsageError
from glassformer.generation.beams import BeamRule, search, search_one
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

V, END, PAD = 11, 9, 10


def model(positions: str = "rotary", mixer: str = "dot", context: int = 17):
    config = {"width": 12, "layers": 2, "heads": 3, "context": context, "positions": positions, "mixer": mixer}
    made = build_model(ModelConfig.parse(config), V, seed=3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(4.0)  # an untrained model is too even for its choices to differ
    return made.eval()


PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 1, 2], [3, 3], [8, 1, 4, 2, 7]]


def assert_same(found, wanted) -> None:
    assert [(one.ids, one.ended) for one in found] == [(one.ids, one.ended) for one in wanted]
    torch.testing.assert_close(
        torch.tensor([one.log_probability for one in found]), torch.tensor([one.log_probability for one in wanted])
    )


@pytest.mark.parametrize("beams", [1, 2, 5])
@pytest.mark.parametrize(("positions", "mixer"), [("rotary", "dot"), ("learned", "dot"), ("learned", "synthesizer")])
def test_a_batch_with_a_cache_gives_what_the_definition_gives(beams, positions, mixer):
    made, rule = model(positions, mixer), BeamRule(end_id=END, max_new_tokens=6, beams=beams, banned=[PAD])
    together = search(made, PROMPTS, rule, batch_size=3)
    for prompt, found in zip(PROMPTS, together):
        assert_same(found, search_one(made, prompt, rule))


def test_batches_that_other_processes_search_give_the_same_numbers():
    """Their results arrive as text, bit for bit."""
    made, rule, seen = model(), BeamRule(end_id=END, max_new_tokens=6, beams=2, banned=[PAD]), []

    def by_others(batches, compute):
        for places in batches:
            seen.append(list(places))
            yield json.loads(json.dumps(compute(places)))

    assert search(made, PROMPTS, rule, batch_size=2, shared=by_others) == search(made, PROMPTS, rule, batch_size=2)
    assert len(seen) == 3
    assert sorted(at for places in seen for at in places) == list(range(len(PROMPTS)))


def test_the_probability_is_that_of_the_whole_answer_with_its_end():
    made, rule = model(), BeamRule(end_id=END, max_new_tokens=8, beams=4, banned=[PAD])
    ended = [one for found in search(made, PROMPTS, rule) for one in found if one.ended]
    assert ended
    for prompt, one in ((p, o) for p, found in zip(PROMPTS, search(made, PROMPTS, rule)) for o in found if o.ended):
        text = [*prompt, *one.ids, END]
        scores = torch.log_softmax(made(torch.tensor([text[:-1]])), dim=-1)[0].detach()
        by_hand = sum(float(scores[at - 1, text[at]]) for at in range(len(prompt), len(text)))
        assert one.log_probability == pytest.approx(by_hand, abs=1e-4)
        assert PAD not in one.ids


def test_one_beam_is_greedy_and_more_beams_never_find_less_probable_answers():
    made = model()
    one, many = (search(made, PROMPTS, BeamRule(end_id=END, max_new_tokens=8, beams=n, banned=[PAD])) for n in (1, 6))
    for prompt, greedy, best in zip(PROMPTS, one, many):
        text = list(prompt)
        for token in greedy[0].ids:
            assert int(made(torch.tensor([text]))[0, -1, :PAD].argmax()) == token
            text.append(token)
        if greedy[0].ended and best[0].ended:
            assert best[0].log_probability >= greedy[0].log_probability - 1e-6
        assert sum(math.exp(c.log_probability) for c in best if c.ended) <= 1 + 1e-6


def test_an_answer_ends_where_the_context_of_its_own_prompt_ends():
    made = model(context=7)
    found = search(made, PROMPTS, BeamRule(end_id=PAD, max_new_tokens=5, banned=range(END, V)))
    assert [len(one[0].ids) for one in found] == [5, 5, 2, 5, 3]  # prompts of 3, 1, 6, 2 and 5 tokens
    assert not any(one[0].ended for one in found)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_a_long_prompt_takes_no_room_from_its_neighbours(beams, positions):
    made, rule = model(positions), BeamRule(end_id=END, max_new_tokens=12, beams=beams, banned=[PAD])
    prompts = [[3, 4, 5], [1, 2, 3, 4] * 4 + [5], [7, 8] * 6]
    for prompt, found in zip(prompts, search(made, prompts, rule)):
        assert_same(found, search_one(made, prompt, rule))


@pytest.mark.parametrize("beams", [1, 3])
def test_a_cache_that_cannot_be_taken_back_is_read_without_padding(beams, recurrent_mixers):
    made, rule = recurrent_mixers(model()), BeamRule(end_id=END, max_new_tokens=5, beams=beams, banned=[PAD])
    prompts = [*PROMPTS, [6, 5, 4], [2]]
    for prompt, found in zip(prompts, search(made, prompts, rule)):
        assert_same(found, search_one(made, prompt, rule))


def test_keys_and_values_take_no_more_than_they_may(monkeypatch):
    made, sizes = model(context=512), []
    new_cache = made.new_cache
    monkeypatch.setattr(beams_module, "CACHE_BYTES", {"cpu": 1 << 15})
    monkeypatch.setattr(made, "new_cache", lambda **how: sizes.append(new_cache(**how)) or sizes[-1])
    search(made, [[3, 4, 5]] * 40, BeamRule(end_id=END, max_new_tokens=4, beams=2))
    made_buffers = [[buffer for layer in cache.layers for buffer in layer._buffers.values()] for cache in sizes]
    bytes_of = [sum(buffer.nbytes for buffer in buffers) for buffers in made_buffers if buffers]
    assert max(bytes_of) <= 1 << 15 < sum(bytes_of)


def test_what_cannot_be_searched_is_a_sentence():
    made = model(context=5)
    with refused(DataError, "prompt-length", "Prompt 3 has 6 tokens", "1 to 5"):
        search(made, PROMPTS, BeamRule(end_id=END, max_new_tokens=2))
    with refused(UsageError, "bad-beams", "beams=0"):
        BeamRule(end_id=END, max_new_tokens=2, beams=0)
    assert search(made, [], BeamRule(end_id=END, max_new_tokens=2)) == []
