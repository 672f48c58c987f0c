# docs/snippets/my_embedding.py
import torch
from torch import nn

from glassformer.model.slots import EMBEDDINGS, EmbeddingConfig


@EMBEDDINGS.variant("my-scaled-channels")
class ScaledChannelsConfig(EmbeddingConfig):
    """One trained vector per token, each of its numbers times a trained factor."""

    def build(self, dims):
        return ScaledChannels(dims.vocabulary, dims.width)


class ScaledChannels(nn.Embedding):
    def __init__(self, vocabulary, width):
        super().__init__(vocabulary, width)
        self.factor = nn.Parameter(torch.ones(width))

    def forward(self, ids):
        return super().forward(ids) * self.factor
