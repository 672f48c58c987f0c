# docs/snippets/my_attention.py
import torch
from torch import nn

from glassformer.model.attention import attention_pattern, attention_scores, split_heads
from glassformer.model.dims import matmul_flops
from glassformer.model.slots import MIXERS, Mixer, MixerConfig
from glassformer.model.tap import Tap


@MIXERS.variant("window")
class WindowConfig(MixerConfig):
    """Dot-product attention to the last ``reach`` tokens only (a variant of one's own)."""

    reach: int = 8

    def build(self, dims):
        return Window(dims, self.reach)

    def flops(self, dims, batch, length):
        projections = matmul_flops(batch * length, dims.width, 3 * dims.width)
        return projections + 2 * matmul_flops(batch, length, length, dims.width)


class Window(Mixer):
    def __init__(self, dims, reach):
        super().__init__()
        self.heads, self.reach, self.pattern = dims.heads, reach, Tap()
        self.qkv = nn.Linear(dims.width, 3 * dims.width, bias=dims.bias)

    def forward(self, x, attention_context, positions, cache):
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        if cache is not None:
            k, v = cache.extend("key", k), cache.extend("value", v)
        at = attention_context.query_position_ids(x.shape[1], x.device)
        near = at[:, None, :, None] - torch.arange(k.shape[2], device=x.device) < self.reach
        mask = attention_context.attention_mask(q.shape[2], k.shape[2], x.device)
        pattern = attention_pattern(attention_scores(q, k), near if mask is None else near & mask)
        return self.pattern(pattern) @ v
