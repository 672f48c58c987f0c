# docs/snippets/my_norm.py
import torch
from torch import nn

from glassformer.model.slots import NORMS, NormConfig


@NORMS.variant("my-tanh")
class TanhConfig(NormConfig):
    """scale tanh(a x) + shift in place of a norm, with a trained number a (DyT, Zhu et al. 2025)."""

    def build(self, dims):
        return Tanh(dims.width)


class Tanh(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.5))
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.scale * torch.tanh(self.a * x) + self.shift
