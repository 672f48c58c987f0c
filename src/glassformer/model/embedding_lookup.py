"""Ids -> rows of a table, with a backward pass that is fast and always adds in the same order."""

from __future__ import annotations

from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SMALL_TABLE = 1024
"""Rows up to which the gradient is made by a matrix product on CUDA: there the deterministic scatter takes 25 % of the
step of a small character model (H200, shakespeare-char), and the product almost nothing."""


UNIT = 64
"""bf16 products of a whole number of these columns are fast."""


@final
class Embedding(nn.Embedding):
    """An embedding. Same values and gradients as torch's own."""

    def forward(self, ids: Tensor) -> Tensor:
        if ids.is_cuda and self.num_embeddings <= SMALL_TABLE and torch.is_grad_enabled():
            return _LookupByProduct.apply(self.weight, ids)
        return super().forward(ids)


class _LookupByProduct(torch.autograd.Function):
    """Rows by index; the gradient as one product of the ids' one-hot matrix with the incoming gradients."""

    @staticmethod
    def forward(ctx: Any, weight_VD: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.rows, ctx.in_bf16 = weight_VD.shape[0], torch.is_autocast_enabled("cuda")
        return F.embedding(ids, weight_VD)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (ids,) = ctx.saved_tensors
        gradient_ND = gradients[0].flatten(0, -2)
        if not ctx.in_bf16:
            return F.one_hot(ids.flatten(), ctx.rows).to(gradient_ND.dtype).T @ gradient_ND, None
        columns = ctx.rows + -ctx.rows % UNIT
        one_hot_NV = F.one_hot(ids.flatten(), columns).bfloat16()  # exact; the sum is formed in float32
        return torch.mm(one_hot_NV.T, gradient_ND.bfloat16(), out_dtype=torch.float32)[: ctx.rows], None
