# docs/snippets/own_lstm.py
import torch
from torch import nn

from glassformer.model.network import MODELS, NetworkConfig


class LSTM(nn.Module):
    """Scores of every token; with ``outputs`` those of a whole row, read at its last token that is no padding."""

    def __init__(self, vocabulary, outputs, width, layers, dropout):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)
        self.head = nn.Linear(width, outputs or vocabulary)
        self.rows = outputs is not None

    def forward(self, ids, key_padding_mask=None):
        hidden, _ = self.lstm(self.embed(ids))
        if not self.rows:
            return self.head(hidden)
        seen = torch.ones_like(ids) if key_padding_mask is None else (~key_padding_mask).long()
        last = seen.sum(1).clamp(min=1) - 1
        return self.head(hidden[torch.arange(len(ids), device=ids.device), last])


@MODELS.variant("lstm")
class LSTMConfig(NetworkConfig):
    """A long short-term memory (Hochreiter and Schmidhuber 1997), of tokens or of whole rows."""

    width: int = 64
    layers: int = 2
    dropout: float = 0.1

    def build(self, vocabulary, *, outputs=None, seed):
        return LSTM(vocabulary, outputs, self.width, self.layers, self.dropout)
