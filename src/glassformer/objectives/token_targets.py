"""What objectives whose targets are tokens share: the vectors that these are predicted from, nats by row, pairs as text.

Not a variant. Where a batch has sources, its targets are predicted given these.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.two import target_side
from glassformer.model.losses import IGNORED
from glassformer.model.network import Network, evaluating


def target_features(network: Network, batch: Batch, *, dropout_seed: Tensor | None = None) -> Tensor:
    """The vectors of the ids, given their sources if the batch has any."""
    if "source_ids" not in batch.tensors:
        return network.features(batch["ids"], dropout_seed=dropout_seed)
    memory = network.encode(batch["source_ids"], batch["source_padding"], dropout_seed=dropout_seed)
    return network.given(memory).features(batch["ids"], dropout_seed=dropout_seed)


@torch.no_grad()
def row_nats(network: Network, batch: Batch) -> np.ndarray:
    """float64 [B]: the loss in nats, summed over the targets of each row, in evaluation mode."""
    batch = batch.to(next(network.parameters()).device)
    with evaluating(network):
        scores_BTV = network.head(target_features(network, batch)).float()
    nats = torch.nn.functional.cross_entropy(
        scores_BTV.flatten(0, 1), batch["targets"].flatten(), ignore_index=IGNORED, reduction="none"
    )
    return np.asarray(nats.view(batch.rows, -1).double().sum(dim=1).cpu().numpy())


def row_targets(batch: Batch) -> np.ndarray:
    """int64 [B]: how many targets each row has."""
    return np.asarray((batch["targets"] != IGNORED).sum(dim=1).cpu().numpy())


def shown_pairs(batch: Batch, tokenizer: Tokenizer) -> list[str]:
    """Each row as text: its source and its target."""
    target, lines = target_side(tokenizer), []
    for row in range(batch.rows):
        source = batch["source_ids"][row][~batch["source_padding"][row]].tolist()
        wanted = [token for token in batch["targets"][row].tolist() if token != IGNORED]
        lines.append(f"{tokenizer.decode(source)!r} -> {target.decode(wanted)!r}")
    return lines
