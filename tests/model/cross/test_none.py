"""Without cross-attention the decoder has neither it nor its norm, and no target depends on the source."""

from __future__ import annotations

import torch

from glassformer.model.network import MODELS


def test_nothing_is_built_and_nothing_is_read() -> None:
    config = MODELS.parse({"kind": "encoder-decoder", "width": 12, "layers": 2, "heads": 3, "context": 9, "cross": "none"})
    network = config.build(11, seed=0).eval()
    assert not [name for name, _ in network.named_parameters() if "cross" in name]
    source_BS, ids_BT = torch.randint(11, (2, 6)), torch.randint(11, (2, 5))
    assert torch.equal(network(source_BS, ids_BT), network((source_BS + 1) % 11, ids_BT))
