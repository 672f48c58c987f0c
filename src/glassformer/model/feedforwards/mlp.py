"""Two linear layers with ReLU, its square, GELU or its tanh form between them, for each token alone."""

from __future__ import annotations

from typing import ClassVar, final

from pydantic import Field
from torch import Tensor, nn

from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import start
from glassformer.model.slots import FEEDFORWARDS, FeedforwardConfig
from glassformer.model.tap import Tap


class MLPConfig(FeedforwardConfig):
    """Linear, an activation, linear; the inner width is ``expansion`` times the width, or ``inner`` exactly."""

    activation: ClassVar[str]

    expansion: float = Field(default=4.0, gt=0)
    inner: int | None = Field(default=None, gt=0)

    def inner_width(self, dims: Dims) -> int:
        return self.inner or max(1, round(self.expansion * dims.width))

    def build(self, dims: Dims) -> MLP:
        return MLP(dims, self.inner_width(dims), activation=type(self).activation)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return 2 * matmul_flops(batch * length, dims.width, self.inner_width(dims))


@FEEDFORWARDS.variant("relu")
@final
class ReLUConfig(MLPConfig):
    """Linear, ReLU, linear, as in the original Transformer (Vaswani et al. 2017)."""

    activation: ClassVar[str] = "relu"


@FEEDFORWARDS.variant("gelu")
@final
class GELUConfig(MLPConfig):
    """Linear, GELU, linear (Hendrycks and Gimpel 2016; GPT-2)."""

    activation: ClassVar[str] = "gelu"


@FEEDFORWARDS.variant("gelu-tanh")
@final
class GELUTanhConfig(MLPConfig):
    """Linear, GELU approximated by a tanh, linear: what GPT-2's published weights were trained with."""

    activation: ClassVar[str] = "gelu-tanh"


@FEEDFORWARDS.variant("relu2")
@final
class ReLUSquaredConfig(MLPConfig):
    """Linear, ReLU squared, linear (Primer, So et al. 2021)."""

    activation: ClassVar[str] = "relu2"


@final
class ReLUSquared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu().square()


@final
class GELUTanh(nn.GELU):
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): "gelu_new" and "gelu_pytorch_tanh" elsewhere."""

    def __init__(self) -> None:
        super().__init__(approximate="tanh")


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu-tanh": GELUTanh,
    "relu2": ReLUSquared,
    "silu": nn.SiLU,
    "sigmoid": nn.Sigmoid,
}


@final
class MLP(nn.Module):
    def __init__(self, dims: Dims, inner: int, *, activation: str) -> None:
        super().__init__()
        self.up = start(nn.Linear(dims.width, inner, bias=dims.bias), "up")
        self.down = start(nn.Linear(inner, dims.width, bias=dims.bias), "down", writes_residual=True)
        self.activation = ACTIVATIONS[activation]()
        self.neurons = Tap("batch position neuron")

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(self.neurons(self.activation(self.up(x_BTD))))
