"""A memory serves more rows than it has: one source for all, or each for its neighbours."""

from __future__ import annotations

import torch

from glassformer.model.attention_context import Memory


def test_rows() -> None:
    vectors_BSD, padding_BS = torch.arange(2 * 3 * 4.0).view(2, 3, 4), torch.tensor([[False, False, True], [False] * 3])
    memory = Memory(vectors_BSD, padding_BS, stored={0: (torch.ones(2, 1, 3, 4), torch.zeros(2, 1, 3, 4))})
    assert memory.for_rows(2) is memory
    six = memory.for_rows(6)
    assert torch.equal(six.vectors_BSD[:, 0, 0], torch.tensor([0.0, 0, 0, 12, 12, 12]))
    assert six.padding_BS is not None
    assert six.padding_BS[:, 2].tolist() == [True] * 3 + [False] * 3
    assert six.stored[0][0].shape == (6, 1, 3, 4)
    one = Memory(vectors_BSD[:1]).for_rows(5)
    assert one.vectors_BSD.shape == (5, 3, 4)
    assert one.padding_BS is None
