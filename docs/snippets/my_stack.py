# docs/snippets/my_stack.py
import torch
from torch import nn

from glassformer.model.slots import STACKS, Stack, StackConfig


@STACKS.variant("my-first-and-last")
class FirstAndLastConfig(StackConfig):
    """The last layer also reads the embedding, times a trained number that starts at zero."""

    def build(self, dims):
        return FirstAndLast()


class FirstAndLast(Stack):
    def __init__(self):
        super().__init__()
        self.share = nn.Parameter(torch.zeros(()))

    def forward(self, x, layers):
        embedded = x
        for number, layer in enumerate(layers, start=1):
            x = layer(x + self.share * embedded if number == len(layers) else x)
        return x
