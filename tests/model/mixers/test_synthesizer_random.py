"""The random synthesizer: a table that no text can change, trained or left as drawn."""

from __future__ import annotations

import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.synthesizer_random import SynthesizerRandomConfig
from glassformer.model.slots import Positions

DIMS = Dims(width=6, heads=2, layers=1, context=5, vocabulary=7)


def test_the_table_alone_decides_the_pattern() -> None:
    mixer = SynthesizerRandomConfig().build(DIMS)
    mixer.init_weights(torch.Generator().manual_seed(0))
    seen = []
    mixer.pattern.register_forward_hook(lambda tap, inputs, output: seen.append(output))
    mixer(torch.randn(3, 4, 6), AttentionContext(causal=True), Positions(), None)
    scores = mixer.table_HTS[:, :4, :4].masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(seen[0], torch.softmax(scores, dim=-1).unsqueeze(0), rtol=0, atol=0)


def test_a_query_in_the_middle_reads_its_own_row_of_the_table() -> None:
    mixer = SynthesizerRandomConfig().build(DIMS)
    mixer.init_weights(torch.Generator().manual_seed(0))
    x_BTD = torch.randn(3, 4, 6)
    whole = mixer(x_BTD, AttentionContext(causal=True), Positions(), None)
    placed = mixer(x_BTD, AttentionContext(causal=True, position_ids_BT=torch.arange(4).expand(3, 4)), Positions(), None)
    torch.testing.assert_close(whole, placed)


def test_untrained_table_is_saved_but_is_no_parameter() -> None:
    mixer = SynthesizerRandomConfig(trained=False).build(DIMS)
    assert "table_HTS" in mixer.state_dict()
    assert "table_HTS" not in dict(mixer.named_parameters())
    trained = SynthesizerRandomConfig().build(DIMS)
    numbers = [sum(one.numel() for one in each.parameters()) for each in (mixer, trained)]
    assert numbers == [6 * 6 + 6, 6 * 6 + 6 + 2 * 5 * 5]
