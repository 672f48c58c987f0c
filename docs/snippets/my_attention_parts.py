# docs/snippets/my_attention_parts.py
import torch
from torch import nn

from glassformer.model.slots import (
    NORMALISERS,
    OUTPUTS,
    QUERY_KEY_MAPS,
    SCORE_MAPS,
    VALUE_MAPS,
    HeadOutput,
    Normaliser,
    NormaliserConfig,
    OutputConfig,
    QueryKeyConfig,
    QueryKeyMap,
    ScoreConfig,
    ScoreMap,
    ValueConfig,
    ValueMap,
)


@QUERY_KEY_MAPS.variant("my-scaled-queries")
class ScaledQueriesConfig(QueryKeyConfig):
    """Queries times a trained number for each head."""

    def build(self, dims):
        return ScaledQueries(dims.heads)


class ScaledQueries(QueryKeyMap):
    def __init__(self, heads):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(heads))

    def forward(self, q, k):
        return self.factor[:, None, None] * q, k


@SCORE_MAPS.variant("my-softsign")
class SoftsignConfig(ScoreConfig):
    """s / (1 + |s| / cap): scores stay between -cap and cap."""

    cap: float = 20.0

    def build(self, dims):
        return Softsign(self.cap)


class Softsign(ScoreMap):
    def __init__(self, cap):
        super().__init__()
        self.cap = cap

    def forward(self, scores):
        return scores / (1 + scores.abs() / self.cap)


@NORMALISERS.variant("my-squares")
class SquaresConfig(NormaliserConfig):
    """Weights in proportion to (1 + relu(s))^2 instead of e^s."""

    def build(self, dims):
        return Squares()


class Squares(Normaliser):
    def forward(self, scores, mask):
        weights = (1 + scores.relu()) ** 2
        weights = weights if mask is None else weights.masked_fill(~mask, 0.0)
        return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


@OUTPUTS.variant("my-head-sizes")
class HeadSizesConfig(OutputConfig):
    """Each head's output times a trained vector."""

    def build(self, dims):
        return HeadSizes(dims.heads, dims.head_width)


class HeadSizes(HeadOutput):
    def __init__(self, heads, width):
        super().__init__()
        self.sizes = nn.Parameter(torch.ones(heads, 1, width))

    def forward(self, z, x):
        return self.sizes * z


@VALUE_MAPS.variant("my-token-sizes")
class TokenSizesConfig(ValueConfig):
    """Values times a trained number for each token of the vocabulary."""

    def build(self, dims):
        return TokenSizes(dims.vocabulary)


class TokenSizes(ValueMap):
    def __init__(self, vocabulary):
        super().__init__()
        self.sizes = nn.Parameter(torch.ones(vocabulary))

    def forward(self, v, x, ids):
        return self.sizes[ids][:, None, :, None] * v
