# docs/snippets/my_block.py
import torch
from torch import nn

from glassformer.model.dropout import Dropout
from glassformer.model.slots import BLOCKS, Block, BlockConfig, feed
from glassformer.model.tap import STREAM, Tap


@BLOCKS.variant("my-scaled")
class ScaledConfig(BlockConfig):
    """x + a attention(norm(x)), then x + b feedforward(norm(x)), with trained a and b (LayerScale, Touvron et al. 2021)."""

    norms = 2
    norm_at_end = True
    first: float = 0.1

    def build(self, dims, make):
        return Scaled(dims, make, self.first)


class Scaled(Block):
    def __init__(self, dims, make, first):
        super().__init__()
        self.ln_1, self.attn = make.norm(), make.attention()
        self.ln_2, self.mlp = make.norm(), make.feedforward()
        self.a, self.b = (nn.Parameter(torch.full((dims.width,), first)) for _ in range(2))
        self.dropout, self.after = Dropout(dims.dropout), Tap(STREAM)

    def forward(self, x, attention_context, positions, cache):
        masks = attention_context.dropout_masks
        x = x + self.a * self.dropout(self.attn(self.ln_1(x), attention_context, positions, cache), masks)
        changed = feed(self.mlp, self.ln_2(x), attention_context, cache)
        return self.after(x + self.b * self.dropout(changed, masks))
