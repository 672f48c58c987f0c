"""Every layer reads a weighted mean of all depths before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import STACKS, Layer, Stack, StackConfig


@STACKS.variant("depth_means")
@final
class DepthMeansConfig(StackConfig):
    """After layer l: the sum over depths j <= l of a_lj x_j, with trained a (DenseFormer, Pagliardini et al. 2024).

    Depth 0 is the embedding. a starts with 1 for the layer's own output and 0 for the others: the plain stack. Layer l
    (from 0) has l + 2 parameters.
    """

    def build(self, dims: Dims) -> DepthMeans:
        return DepthMeans(dims)


@final
class DepthMeans(Stack):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        # vectors, not one matrix: weight decay and Muon take matrices
        rows = ([0.0] * (layer + 1) + [1.0] for layer in range(dims.layers))
        self.weights = nn.ParameterList(torch.tensor(row) for row in rows)

    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        depths = [x_BTD]
        for layer, weights in zip(layers, self.weights, strict=True):
            depths.append(layer(x_BTD))
            mean_BTD = sum(weight * depth_BTD for weight, depth_BTD in zip(weights, depths, strict=True))
            assert isinstance(mean_BTD, Tensor)
            x_BTD = mean_BTD.to(x_BTD.dtype)
        return x_BTD
