# docs/snippets/my_feedforward.py
from torch import nn

from glassformer.model.dims import matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.slots import FEEDFORWARDS, FeedforwardConfig


@FEEDFORWARDS.variant("my-squared")
class SquaredConfig(FeedforwardConfig):
    """Squared rectified units between two linear maps (Primer, So et al. 2021)."""

    times: int = 4

    def build(self, dims):
        return Squared(dims, self.times * dims.width)

    def flops(self, dims, batch, length):
        return 2 * matmul_flops(batch * length, dims.width, self.times * dims.width)


class Squared(nn.Module):
    def __init__(self, dims, inner):
        super().__init__()
        self.first = nn.Linear(dims.width, inner, bias=dims.bias)
        self.second = start(nn.Linear(inner, dims.width, bias=dims.bias), writes_residual=True)

    def forward(self, x):
        return self.second(self.first(x).relu() ** 2)
