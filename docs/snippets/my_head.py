# docs/snippets/my_head.py
import torch
from torch import nn

from glassformer.model.dims import matmul_flops
from glassformer.model.slots import HEADS, HeadConfig


@HEADS.variant("my-capped")
class CappedConfig(HeadConfig):
    """Scores by the embedding's matrix, kept between -cap and cap by a tanh (Gemma 2, 2024)."""

    shares_embedding = True
    cap: float = 30.0

    def build(self, dims, embedding):
        return Capped(embedding, self.cap)

    def flops(self, dims, batch, length):
        return matmul_flops(batch * length, dims.width, dims.vocabulary)


class Capped(nn.Module):
    def __init__(self, embedding, cap):
        super().__init__()
        self.weight, self.cap = embedding.weight, cap

    def forward(self, x):
        return self.cap * torch.tanh(x @ self.weight.T / self.cap)
