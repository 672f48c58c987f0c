"""The reference implementation of generation, held to the model's own scores."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import Diverged
from glassformer.generation.generate import generate
from glassformer.generation.reference import choose_next, next_scores, next_token, seen_ids, token_choices
from glassformer.generation.sampling import Sampling
from glassformer.generation.sequence import TokenSequence
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer, build_model

VOCABULARY, CONTEXT = 11, 6


@pytest.fixture(scope="module")
def model(loud_model) -> Transformer:
    return loud_model(VOCABULARY, times=6.0, width=12, heads=3, context=CONTEXT)


def text_of(*ids: int, new: tuple[int, ...] = (), key: int = 5) -> TokenSequence:
    return TokenSequence(prompt_index=0, ids=list(ids + new), seed=key, context=CONTEXT, max_new_tokens=9, new_ids=list(new))


@pytest.mark.parametrize("ids", [(4,), (1, 2, 3, 4, 5, 6), (9, 8, 7, 1, 2, 3, 4, 5, 6, 7)], ids=["one", "full", "beyond"])
def test_the_scores_are_the_models_at_the_last_id_of_the_window(model, ids):
    """Ten ids in a context of six: the window begins at the seventh, since it moves by three at a time."""
    window = {1: ids, 6: ids, 10: ids[6:]}[len(ids)]
    expected = model(torch.tensor([window]))[:, -1]
    assert torch.allclose(next_scores(model, text_of(*ids)), expected, atol=1e-5)
    assert next_token(model, text_of(*ids), Sampling(temperature=0)) == int(expected.argmax())


def test_the_draw_depends_on_the_texts_key_and_on_how_much_is_written():
    scores_1V = torch.zeros(1, VOCABULARY)
    drawn = {
        (key, len(new)): choose_next(scores_1V, text_of(1, new=new, key=key), Sampling())
        for key in range(20)
        for new in [(), (3,)]
    }
    assert drawn == {
        where: choose_next(scores_1V, text_of(1, new=(3,) * where[1], key=where[0]), Sampling()) for where in drawn
    }
    assert len({drawn[key, 0] for key in range(20)}) > 5
    assert any(drawn[key, 0] != drawn[key, 1] for key in range(20))


def test_a_penalty_is_for_every_id_that_stands_in_the_text():
    sequences = [text_of(3, 3, new=(7,)), text_of(0)]
    expected = torch.zeros(2, VOCABULARY, dtype=torch.bool)
    expected[0, [3, 7]], expected[1, 0] = True, True
    assert torch.equal(seen_ids(sequences, VOCABULARY), expected)
    scores_1V = torch.full((1, VOCABULARY), 1.0)
    scores_1V[0, 3], scores_1V[0, 5] = 3.0, 2.0
    assert choose_next(scores_1V, sequences[0], Sampling(temperature=0)) == 3
    assert choose_next(scores_1V, sequences[0], Sampling(temperature=0, repetition_penalty=2.0)) == 5  # 3 halved is 1.5


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_end_with_a_sentence(model, bad):
    broken = build_model(ModelConfig(width=12, layers=1, heads=3, context=CONTEXT), VOCABULARY, seed=1).eval()
    with torch.no_grad():
        broken.embedding.weight[0] = bad
    with refused(Diverged, "scores-not-finite"):
        next_token(broken, text_of(4, 0), Sampling())


def test_equals_the_reference_beyond_the_context() -> None:
    model = build_model(ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": 7}), 11, seed=5).eval()
    prompt = [1, 2, 3]
    (made,) = generate(model, [prompt], max_new_tokens=19, temperature=1.0)
    choices = token_choices(model, prompt, made.ids, top=4)
    assert [one.token for one in choices] == made.ids
    for place, one in enumerate(choices):
        sequence = TokenSequence(prompt_index=0, ids=[*prompt, *made.ids[:place]], seed=0, context=7, max_new_tokens=1)
        with torch.no_grad():
            chances = next_scores(model, sequence)[0].softmax(-1)
        torch.testing.assert_close(one.probability, float(chances[one.token]), rtol=1e-4, atol=1e-6)
        best = chances.topk(4)
        torch.testing.assert_close([p for _, p in one.alternatives], best.values.tolist(), rtol=1e-4, atol=1e-6)
    assert token_choices(model, prompt, []) == []
