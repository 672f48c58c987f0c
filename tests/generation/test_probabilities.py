"""The probability of each generated token is that of the reference, window by window."""

from __future__ import annotations

import torch

from glassformer.generation.generate import generate
from glassformer.generation.probabilities import token_choices
from glassformer.generation.reference import next_scores
from glassformer.generation.sequence import TokenSequence
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model


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
