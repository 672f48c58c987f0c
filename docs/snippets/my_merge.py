# docs/snippets/my_merge.py
import torch
from torch import nn

from glassformer.model.slots import MERGES, Merge, MergeConfig


@MERGES.variant("my-weighted-heads")
class WeightedHeadsConfig(MergeConfig):
    """The heads side by side, each times a trained number."""

    def build(self, dims):
        return WeightedHeads(dims.heads)


class WeightedHeads(Merge):
    def __init__(self, heads):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads))

    def forward(self, z):  # [B, H, T, E] -> [B, T, H * E]
        return (self.weight[:, None, None] * z).transpose(1, 2).flatten(2)
