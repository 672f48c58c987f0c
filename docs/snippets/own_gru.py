# docs/snippets/own_gru.py
from torch import nn

from glassformer.model.network import MODELS, NetworkConfig


class GRU(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.scores = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.scores(self.gru(self.embed(ids))[0])


@MODELS.variant("gru")
class GRUConfig(NetworkConfig):
    """A recurrent network instead of a Transformer (Cho et al. 2014)."""

    width: int = 64

    def build(self, vocabulary, *, outputs=None, seed):
        return GRU(outputs or vocabulary, self.width)
