"""Several residual streams that are mixed between the layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims
from glassformer.model.slots import STACKS, Layer, Stack, StackConfig


@STACKS.variant("hyper_connections")
@final
class HyperConnectionsConfig(StackConfig):
    """n residual streams, mixed between layers by trained numbers: the static form of hyper-connections (Zhu et al. 2024).

    Layer l reads x = sum_i r_i h_i and changes it by f(x); then h_i becomes sum_j m_ij h_j + w_i f(x). The embedding starts
    all streams, and their mean leaves. At the start each layer reads one stream (in turn) and all are written: the
    plain stack, whose streams stay equal. n (n + 2) numbers a layer.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"streams": 3})

    streams: int = Field(default=2, ge=2, le=64)

    def build(self, dims: Dims) -> HyperConnections:
        return HyperConnections(dims, self.streams)


@final
class HyperConnections(Stack):
    def __init__(self, dims: Dims, streams: int) -> None:
        super().__init__()
        one_at_a_time = torch.eye(streams)
        # vectors, not matrices: weight decay and Muon take matrices
        self.read = nn.ParameterList(one_at_a_time[layer % streams].clone() for layer in range(dims.layers))
        self.mix = nn.ParameterList(torch.eye(streams).flatten() for _ in range(dims.layers))
        self.write = nn.ParameterList(torch.ones(streams) for _ in range(dims.layers))

    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        streams = [x_BTD] * len(self.write[0]) if layers else [x_BTD]
        for layer, read, mix, write in zip(layers, self.read, self.mix, self.write, strict=True):
            read_BTD = _weighted(read, streams)
            change_BTD = layer(read_BTD) - read_BTD
            rows = mix.unflatten(0, (len(streams), len(streams)))
            streams = [_weighted(row, streams) + (w * change_BTD).to(x_BTD.dtype) for row, w in zip(rows, write, strict=True)]
        return torch.stack(streams).mean(0)


def _weighted(weights: Tensor, streams: Sequence[Tensor]) -> Tensor:
    total = weights[0] * streams[0]
    for weight, stream_BTD in zip(weights[1:], streams[1:], strict=True):
        total = total + weight * stream_BTD
    return total.to(streams[0].dtype)
