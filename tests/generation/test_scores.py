"""Scores of the next token by the decoder that generates: those of the reference implementation, a row for each prompt."""

from __future__ import annotations

import torch

from glassformer.generation.scores import scores_by_reference, scores_in_generation

PROMPTS = [[3], [1, 2, 3, 4, 5], [7] * 18, list(range(20))]  # the last is longer than the window


def test_the_decoder_gives_the_scores_of_the_reference(model) -> None:
    expected = scores_by_reference(model, PROMPTS)
    assert expected.shape == (len(PROMPTS), model.dims.vocabulary)
    torch.testing.assert_close(scores_in_generation(model, PROMPTS), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(expected[1], model(torch.tensor([PROMPTS[1]]))[0, -1].detach())


def test_a_part_whose_cache_misleads_is_scored_as_it_generates(model, monkeypatch) -> None:
    monkeypatch.setattr("glassformer.generation.scores.cache_misleads", lambda model: True)
    monkeypatch.setattr("glassformer.generation.scores.BatchDecoder", None)
    assert torch.equal(scores_in_generation(model, PROMPTS), scores_by_reference(model, PROMPTS))
