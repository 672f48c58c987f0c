"""Earlier vectors of a row: plain, at padding, across documents, and one by one from a cache."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.model.attention_context import AttentionContext
from glassformer.model.kv_cache import CachePlacement, KVCache
from glassformer.model.time_shift import earlier

X_BTD = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 4, 1)


def rows(found: list[Tensor]) -> list[list[float]]:
    return [each.flatten().tolist() for each in found]


def test_whole_rows() -> None:
    assert rows(earlier(X_BTD, 2, AttentionContext(causal=True), None)) == [[0, 1, 2, 3], [0, 0, 1, 2]]


def test_padding_and_other_documents_are_zeros() -> None:
    padding = torch.tensor([[False, True, False, False]])
    hidden = AttentionContext(causal=True, key_padding_mask_BS=padding)
    assert rows(earlier(X_BTD, 2, hidden, None)) == [[0, 1, 0, 3], [0, 0, 1, 0]]
    documents = AttentionContext(causal=True, document_ids_BS=torch.tensor([[0, 0, 1, 1]]))
    assert rows(earlier(X_BTD, 2, documents, None)) == [[0, 1, 0, 3], [0, 0, 0, 0]]


def test_one_by_one_from_a_cache() -> None:
    placement = CachePlacement(capacity=4)
    cache, found = KVCache(placement), []
    for at in range(4):
        position_ids = torch.tensor([[at]])
        placement.position_ids_BT, placement.length = position_ids, at + 1
        found.append(earlier(X_BTD[:, at : at + 1], 2, AttentionContext(causal=True, position_ids_BT=position_ids), cache))
    assert [[float(each) for each in step] for step in found] == [[0, 0], [1, 0], [2, 1], [3, 2]]
