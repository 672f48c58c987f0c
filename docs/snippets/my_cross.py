# docs/snippets/my_cross.py
from torch import nn

from glassformer.model.attention import split_heads
from glassformer.model.dims import matmul_flops
from glassformer.model.slots import CROSS, CrossConfig, Mixer


@CROSS.variant("my-mean-of-source")
class MeanOfSourceConfig(CrossConfig):
    """Every token of the target reads the plain mean of the source, as much of it as a gate of each head lets through."""

    def build(self, dims):
        return MeanOfSource(dims)

    def flops(self, dims, batch, length):
        return matmul_flops(batch, dims.width, dims.attention_width) + matmul_flops(batch * length, dims.width, dims.heads)


class MeanOfSource(Mixer):
    def __init__(self, dims):
        super().__init__()
        self.heads = dims.heads
        self.to_value = nn.Linear(dims.width, dims.attention_width, bias=dims.bias)
        self.gate = nn.Linear(dims.width, dims.heads, bias=dims.bias)

    def forward(self, x, attention_context, positions, cache):
        memory = attention_context.required_memory
        real = memory.vectors_BSD.new_ones(memory.vectors_BSD.shape[:2])
        if memory.padding_BS is not None:
            real = real.masked_fill(memory.padding_BS, 0.0)
        mean = (real.unsqueeze(-1) * memory.vectors_BSD).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        value = split_heads(self.to_value(mean).unsqueeze(1), self.heads)
        return split_heads(self.gate(x), self.heads).sigmoid() * value
