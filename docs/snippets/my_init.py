# docs/snippets/my_init.py
import math

from torch import nn

from glassformer.model.slots import INITS, InitConfig


@INITS.variant("my-fan-in")
class FanInConfig(InitConfig):
    """Standard deviation 1 / sqrt(inputs) for linear layers, so that outputs are as large as inputs; embeddings 0.02."""

    def std_of(self, weights, dims):
        module = weights.module
        return 1 / math.sqrt(module.in_features) if isinstance(module, nn.Linear) else 0.02
