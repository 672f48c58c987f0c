"""What objectives with two sequences share: the vectors of the targets given their sources, and a batch as text.

Not a variant: ``translate`` and the pairs of ``spans`` use it.
"""

from __future__ import annotations

from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.two import target_side
from glassformer.model.losses import IGNORED
from glassformer.model.network import Network


def target_features(network: Network, batch: Batch, *, dropout_seed: Tensor | None = None) -> Tensor:
    """The vectors of the targets, given their sources."""
    memory = network.encode(batch["source_ids"], batch["source_padding"], dropout_seed=dropout_seed)
    return network.given(memory).features(batch["ids"], dropout_seed=dropout_seed)


def shown_pairs(batch: Batch, tokenizer: Tokenizer) -> list[str]:
    """Each row as text: its source and its target."""
    target, lines = target_side(tokenizer), []
    for row in range(batch.rows):
        source = batch["source_ids"][row][~batch["source_padding"][row]].tolist()
        wanted = [token for token in batch["targets"][row].tolist() if token != IGNORED]
        lines.append(f"{tokenizer.decode(source)!r} -> {target.decode(wanted)!r}")
    return lines
