"""What the queries of a forward pass may see, by hand."""

from __future__ import annotations

import torch

from glassformer.model.attention_context import AttentionContext

CPU = torch.device("cpu")


def shown(visible: torch.Tensor | None) -> list[list[list[str]]]:
    """One string per query: x where it sees, . where not."""
    assert visible is not None
    return [["".join("x" if cell else "." for cell in row) for row in queries] for queries in visible[:, 0].tolist()]


def test_whole_rows() -> None:
    context = AttentionContext(causal=True)
    assert context.has_no_extra_mask
    assert context.query_position_ids(3, CPU).tolist() == [[0, 1, 2]]
    assert shown(context.attention_mask(3, 3, CPU)) == [["x..", "xx.", "xxx"]]
    assert AttentionContext(causal=False).attention_mask(3, 3, CPU) is None


def test_queries_that_stand_elsewhere() -> None:
    context = AttentionContext(causal=True, position_ids_BT=torch.tensor([[2], [0]]))
    assert not context.has_no_extra_mask
    assert shown(context.attention_mask(1, 4, CPU)) == [["xxx."], ["x..."]]  # what lies beyond a row's end stays hidden


def test_hidden_places_are_hidden_from_every_query() -> None:
    hidden = torch.tensor([[False, True, False], [True, False, False]])
    assert shown(AttentionContext(causal=True, key_padding_mask_BS=hidden).attention_mask(3, 3, CPU)) == [
        ["x..", "x..", "x.x"],
        ["...", ".x.", ".xx"],
    ]
    everywhere = AttentionContext(causal=False, key_padding_mask_BS=hidden).attention_mask(3, 3, CPU)
    assert everywhere is not None
    assert everywhere.expand(2, 1, 3, 3)[:, 0].tolist() == [[[True, False, True]] * 3, [[False, True, True]] * 3]


def test_a_longer_list_of_hidden_places_is_cut_to_the_keys() -> None:
    hidden = torch.tensor([[False, True, False, True, True]])
    assert shown(AttentionContext(causal=True, key_padding_mask_BS=hidden).attention_mask(3, 3, CPU)) == [["x..", "x..", "x.x"]]


def test_a_window_is_the_nearest_keys() -> None:
    context = AttentionContext(causal=True).within(2)
    assert not context.has_no_extra_mask
    assert shown(context.attention_mask(4, 4, CPU)) == [["x...", "xx..", ".xx.", "..xx"]]
    assert shown(AttentionContext(causal=False).within(2).attention_mask(4, 4, CPU)) == [["xx..", "xxx.", ".xxx", "..xx"]]
    late = AttentionContext(causal=True, position_ids_BT=torch.tensor([[3]])).within(2)
    assert shown(late.attention_mask(1, 5, CPU)) == [["..xx."]]
    assert AttentionContext(causal=True).within(None).has_no_extra_mask


def test_documents_do_not_see_each_other() -> None:
    documents = torch.tensor([[0, 0, 1, 1], [5, 5, 5, 6]])
    context = AttentionContext(causal=True, document_ids_BS=documents)
    assert not context.has_no_extra_mask
    assert shown(context.attention_mask(4, 4, CPU)) == [["x...", "xx..", "..x.", "..xx"], ["x...", "xx..", "xxx.", "...x"]]
    late = AttentionContext(causal=True, document_ids_BS=documents, position_ids_BT=torch.tensor([[2], [1]]))
    assert shown(late.attention_mask(1, 4, CPU)) == [["..x."], ["xx.."]]


def test_a_prefix_is_seen_by_all() -> None:
    context = AttentionContext(causal=True, prefix_lengths_B=torch.tensor([2, 0]))
    assert not context.has_no_extra_mask
    assert shown(context.attention_mask(3, 3, CPU)) == [["xx.", "xx.", "xxx"], ["x..", "xx.", "xxx"]]
