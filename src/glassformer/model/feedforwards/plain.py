"""Two linear maps with ReLU, GELU or its tanh form between them, for each token alone."""

from __future__ import annotations

from typing import ClassVar, final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model import kernels
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.slots import FEEDFORWARDS, FeedforwardConfig
from glassformer.model.tap import Tap

if kernels.AVAILABLE:
    from glassformer.model.kernels.gelu import gelu


class PlainConfig(FeedforwardConfig):
    """Linear, a bend, linear; the inner width is ``expansion`` times the width, or ``inner`` exactly."""

    bend: ClassVar[str]

    expansion: float = Field(default=4.0, gt=0)
    inner: int | None = Field(default=None, gt=0)

    def inner_width(self, dims: Dims) -> int:
        return self.inner or max(1, round(self.expansion * dims.width))

    def build(self, dims: Dims) -> Plain:
        return Plain(dims, self.inner_width(dims), bend=type(self).bend)

    def parameters(self, dims: Dims) -> int:
        inner = self.inner_width(dims)
        return dims.linear_parameters(dims.width, inner) + dims.linear_parameters(inner, dims.width)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return 2 * matmul_flops(batch * length, dims.width, self.inner_width(dims))


@FEEDFORWARDS.variant("relu")
@final
class ReLUConfig(PlainConfig):
    """Linear, ReLU, linear, as in the original Transformer (Vaswani et al. 2017)."""

    bend: ClassVar[str] = "relu"


@FEEDFORWARDS.variant("gelu")
@final
class GELUConfig(PlainConfig):
    """Linear, GELU, linear (Hendrycks and Gimpel 2016; GPT-2)."""

    bend: ClassVar[str] = "gelu"


@FEEDFORWARDS.variant("gelu-tanh")
@final
class GELUTanhConfig(PlainConfig):
    """Linear, GELU approximated by a tanh, linear: what GPT-2's published weights were trained with."""

    bend: ClassVar[str] = "gelu-tanh"


@final
class GELU(nn.GELU):
    """Torch's, with a kernel of ours where it is faster."""

    def forward(self, x: Tensor) -> Tensor:
        return gelu(x) if kernels.usable(x) else super().forward(x)


@final
class GELUTanh(nn.GELU):
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): "gelu_new" and "gelu_pytorch_tanh" elsewhere."""

    def __init__(self) -> None:
        super().__init__(approximate="tanh")


@final
class Plain(nn.Module):
    def __init__(self, dims: Dims, inner: int, *, bend: str) -> None:
        super().__init__()
        self.up = nn.Linear(dims.width, inner, bias=dims.bias)
        self.down = nn.Linear(inner, dims.width, bias=dims.bias)
        self.bend = {"relu": nn.ReLU, "gelu": GELU, "gelu-tanh": GELUTanh}[bend]()
        self.neurons = Tap()

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(self.neurons(self.bend(self.up(x_BTD))))
