# docs/snippets/my_positions.py
import torch
from torch import nn

from glassformer.model.slots import POSITIONS, Positions, PositionsConfig


@POSITIONS.variant("my-log-distance")
class LogDistanceConfig(PositionsConfig):
    """Scores fall with the logarithm of the distance, at a trained rate for each head (KERPLE, Chi et al. 2022)."""

    applies_to = "bias"

    def build(self, dims):
        return LogDistance(dims.heads)


class LogDistance(Positions):
    def __init__(self, heads):
        super().__init__()
        self.rate = nn.Parameter(torch.ones(heads))

    def bias(self, position_ids, num_keys):
        keys = torch.arange(num_keys, device=position_ids.device)
        distance = (position_ids[:, None, :, None] - keys).abs()
        return -self.rate[:, None, None] * torch.log1p(distance)
