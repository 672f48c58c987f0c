"""Generation as a caller sees it: the same ids one by one and together, streaming, ends, refusals."""

from __future__ import annotations

import random

import pytest
import torch
from tests.mixers import placed
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, DataError, OutOfMemory, UsageError
from glassformer.generation import generate as generate_module
from glassformer.generation.generate import generate, scores_by_reference, scores_in_generation
from glassformer.model.config import ModelConfig
from glassformer.model.slots import MIXERS, POSITIONS
from glassformer.model.transformer import Transformer, build_model

VOCABULARY = 61


def make_model(context: int, **changes) -> Transformer:
    model = build_model(ModelConfig(width=32, layers=2, heads=4, context=context, **changes), VOCABULARY, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6.0)
    return model


def make_prompts(lengths: list[int]) -> list[list[int]]:
    chance = random.Random(2)
    return [[chance.randrange(VOCABULARY) for _ in range(length)] for length in lengths]


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 0.9, "top_p": 0.95}])
def test_64_prompts_of_1_to_200_tokens_equal_one_by_one(settings):
    model, chance = make_model(context=180), random.Random(1)
    prompts = make_prompts([1, 200, *(chance.randint(1, 200) for _ in range(62))])
    settings = settings | {"max_new_tokens": 12, "seeds": [1000 - row for row in range(64)]}
    assert generate(model, prompts, **settings) == generate(model, prompts, use_cache=False, **settings)


def test_the_same_prompt_and_seed_give_the_same_ids_whatever_stands_beside_them():
    model, prompts = make_model(context=16), make_prompts([5, 3, 9])
    together = generate(model, [*prompts, prompts[0]], max_new_tokens=25, seeds=[4, 5, 6, 7])
    alone = generate(model, [prompts[0]], max_new_tokens=25, seeds=[4])
    assert together[0] == alone[0]
    assert together[3] != alone[0]  # another seed


def test_more_new_tokens_begin_with_the_same_ones():
    model, prompts = make_model(context=16), make_prompts([5, 3])
    short, long = (generate(model, prompts, max_new_tokens=n) for n in (7, 31))
    assert [sequence.ids for sequence in short] == [sequence.ids[:7] for sequence in long]


def test_seeds_count_from_zero_unless_told():
    model, prompts = make_model(context=16), make_prompts([5, 3])
    assert generate(model, prompts, max_new_tokens=9) == generate(model, prompts, max_new_tokens=9, seeds=[0, 1])


@pytest.mark.parametrize("use_cache", [True, False])
def test_ids_are_streamed_in_order(use_cache):
    heard: dict[int, list[int]] = {0: [], 1: [], 2: []}
    sequences = generate(
        make_model(context=8),
        make_prompts([2, 11, 5]),
        max_new_tokens=20,
        stop=lambda row, new: row == 1 and len(new) == 13,
        on_token=lambda row, token: heard[row].append(token),
        use_cache=use_cache,
    )
    assert [sequence.ids for sequence in sequences] == list(heard.values())
    assert [(len(sequence.ids), sequence.reason) for sequence in sequences] == [(20, "length"), (13, "stop"), (20, "length")]


def test_dropout_is_off_while_writing_and_the_model_is_left_as_it_was():
    model, prompts = make_model(context=8, dropout=0.5), make_prompts([3])
    model.train()
    first, again = (generate(model, prompts, max_new_tokens=12, temperature=0) for _ in range(2))
    assert first == again
    assert model.training
    model.eval()
    generate(model, prompts, max_new_tokens=1)
    assert not model.training


def test_prompts_are_left_as_they_were():
    prompts = make_prompts([3, 4])
    copies = [list(prompt) for prompt in prompts]
    generate(make_model(context=8), prompts, max_new_tokens=3)
    assert prompts == copies


def test_nothing_to_do():
    model = make_model(context=8)
    assert generate(model, [], max_new_tokens=5) == []
    assert [(sequence.ids, sequence.reason) for sequence in generate(model, [[1], [2]], max_new_tokens=0)] == [
        ([], "length")
    ] * 2


def test_an_empty_prompt_begins_with_the_start_mark_or_is_refused():
    model = make_model(context=8)
    with refused(DataError, "empty-prompt", "Prompt 2"):
        generate(model, [[1], []], max_new_tokens=5)
    assert generate(model, [[]], max_new_tokens=5, start_id=7) == generate(model, [[7]], max_new_tokens=5)


@pytest.mark.parametrize(
    ("changes", "error", "reason", "named"),
    [
        ({"max_new_tokens": -1}, UsageError, "bad-max_new_tokens", "max_new_tokens=-1"),
        ({"batch_size": 0}, UsageError, "bad-batch_size", "batch_size=0"),
        ({"seeds": [1, 2]}, UsageError, "seeds-do-not-fit", "2 seeds"),
        ({"temperature": -1.0}, UsageError, "bad-temperature", "temperature=-1"),
        ({"prompts": [[1], [2, -3, VOCABULARY]]}, DataError, "unknown-id", "Prompt 2 holds the id -3"),
        ({"prompts": [[1, VOCABULARY]]}, DataError, "unknown-id", f"the ids 0 to {VOCABULARY - 1}"),
    ],
)
def test_mistakes_are_refused_with_a_sentence(changes, error, reason, named):
    settings = {"prompts": [[1]], "max_new_tokens": 3} | changes
    with refused(error, reason, named):
        generate(make_model(context=8), **settings)


def test_a_model_that_sees_the_future_cannot_write():
    with refused(ConfigError, "not-causal", "model.causal=false"):
        generate(make_model(context=8, causal=False), [[1]], max_new_tokens=3)


def test_as_many_rows_at_once_as_memory_allows(monkeypatch):
    """Keys and values of 2 layers x 10 places x 32 numbers x 4 bytes are 5120 bytes a row."""
    model, prompts = make_model(context=10), make_prompts([3, 12, 5, 7, 1])
    expected = generate(model, prompts, max_new_tokens=9)
    monkeypatch.setattr(generate_module, "CACHE_BYTES", {"cpu": 2 * 5120 + 100})
    assert generate_module.rows_that_fit(model, 10) == 2
    assert generate(model, prompts, max_new_tokens=9) == expected
    assert generate_module.rows_that_fit(make_model(context=10, head_width=16), 10) == 1
    monkeypatch.setattr(generate_module, "CACHE_BYTES", {"cpu": 1})
    assert generate_module.rows_that_fit(model, 10) == 1


def test_out_of_memory_is_a_sentence(monkeypatch):
    model = make_model(context=8)

    def fail(*arguments, **settings):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(model, "features", fail)
    with refused(OutOfMemory, "out-of-memory", "64"):
        generate(model, [[1, 2]], max_new_tokens=3)


@pytest.mark.parametrize("name", MIXERS.names())
@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 1.0}])
def test_every_mixer_writes_the_same_with_and_without_memory(name, settings):
    model, prompts = make_model(context=12, mixer=placed(name)), make_prompts([1, 7, 12, 20])
    settings = settings | {"max_new_tokens": 15}
    assert generate(model, prompts, **settings) == generate(model, prompts, use_cache=False, **settings)


@pytest.mark.parametrize("name", POSITIONS.names())
def test_all_positions_write_the_same_with_and_without_memory(name):
    model, prompts = make_model(context=12, positions=name), make_prompts([1, 7, 12, 20])
    assert generate(model, prompts, max_new_tokens=15) == generate(model, prompts, use_cache=False, max_new_tokens=15)


@pytest.mark.parametrize("merge", ["reweight", "reweight_sequence"])
def test_a_part_that_breaks_the_cache_is_written_by_the_definition_where_rounding_is_not_watched(loud_model, merge):
    model = loud_model(23, width=12, heads=3, context=9, merge=merge)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # as in bf16: no exactness is promised
    try:
        together = generate(model, [[1], [2, 3]], max_new_tokens=20)
    finally:
        torch.set_float32_matmul_precision(before)
    assert together == generate(model, [[1], [2, 3]], max_new_tokens=20, use_cache=False)


PROMPTS = [[3], [1, 2, 3, 4, 5], [7] * 18, list(range(20))]  # the last is longer than the window


def test_the_decoder_gives_the_scores_of_the_reference(model) -> None:
    expected = scores_by_reference(model, PROMPTS)
    assert expected.shape == (len(PROMPTS), model.dims.vocabulary)
    torch.testing.assert_close(scores_in_generation(model, PROMPTS), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(expected[1], model(torch.tensor([PROMPTS[1]]))[0, -1].detach())


def test_a_part_whose_cache_misleads_is_scored_as_it_generates(model, monkeypatch) -> None:
    monkeypatch.setattr("glassformer.generation.generate.cache_misleads", lambda model: True)
    monkeypatch.setattr("glassformer.generation.generate.BatchDecoder", None)
    assert torch.equal(scores_in_generation(model, PROMPTS), scores_by_reference(model, PROMPTS))
