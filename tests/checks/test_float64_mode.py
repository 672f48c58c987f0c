"""InDouble: anything in float64, nothing changed, and the vectors of the tokens as leaves."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.checks.float64_mode import InDouble

IDS = torch.tensor([[1, 4, 2], [0, 3, 3]])


class Stubborn(nn.Module):
    """Casts to float32 wherever code of others does."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.linear = nn.Embedding(5, 6), nn.Linear(6, 5)
        self.register_buffer("scale", torch.full((6,), 1 / 3))

    def forward(self, ids_BT: Tensor) -> Tensor:
        x = self.embedding(ids_BT).float() * self.scale
        x = x.to(torch.float32) + torch.arange(6, dtype=torch.float32) / 7 + ids_BT.unsqueeze(-1).float() / 3
        x = F.softmax(x, dim=-1, dtype=torch.float32).to(self.linear.weight.dtype)
        return self.linear(torch.cat([x, torch.zeros(0, 3, 6)])).type(torch.float32)


def test_result_is_that_of_float64_arithmetic() -> None:
    module = Stubborn()
    weight = module.linear.weight
    with torch.no_grad(), InDouble() as double:
        scores = module(IDS)
    third = torch.full((6,), 1 / 3).double()  # the buffer is float32 and stays what it is
    x = module.embedding.weight.double()[IDS] * third
    x = x + torch.arange(6).double() / 7 + IDS.unsqueeze(-1).double() / 3
    expected = torch.softmax(x, -1) @ weight.double().T + module.linear.bias.double()
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-15)
    assert double.eps == torch.finfo(torch.float64).eps
    assert weight.dtype == torch.float32
    assert torch.get_default_dtype() == torch.float32


def test_vectors_of_the_tokens_are_leaves_whatever_way_they_are_looked_up() -> None:
    table = torch.randn(5, 6)
    ways = {
        "module": nn.Embedding(5, 6),
        "index": lambda ids_BT: table[ids_BT],
        "one hot": lambda ids_BT: F.one_hot(ids_BT, 5).float() @ table,
        "written into": lambda ids_BT: table[ids_BT].add_(table[ids_BT[:, :1]]),
    }
    for name, way in ways.items():
        with InDouble(IDS) as double:
            scores = way(IDS).cumsum(1)
        (vectors,) = double.vectors
        assert vectors.is_leaf, name
        (gradient,) = torch.autograd.grad(scores[0, 1].sum(), vectors)
        reached = gradient.abs().amax(-1)
        assert reached[0, :2].min() > 0, name
        assert reached[0, 2] == 0, name
        assert reached[1].max() == 0, name


def test_stirred_sees_closed_gates_as_open_and_leaves_them_closed() -> None:
    gate = nn.Parameter(torch.zeros(3))
    open_gate = nn.Parameter(torch.ones(3))
    with InDouble(randomised=True):
        randomised, left = gate * 1.0, open_gate * 1.0
    assert randomised.detach().abs().min() > 0
    assert left.tolist() == [1.0, 1.0, 1.0]
    assert gate.tolist() == [0.0, 0.0, 0.0]


def test_a_changed_parameter_is_raised_again() -> None:
    weight = nn.Parameter(torch.ones(2))
    double = InDouble()
    for factor in (1.0, 2.0):
        with torch.no_grad():
            weight.fill_(factor)
            with double:
                assert (weight * 1.0).tolist() == [factor, factor]


def test_writes_in_place_reach_what_they_write_to() -> None:
    buffer = torch.zeros(2)
    with InDouble():
        buffer[0] = torch.ones(())
        buffer.add_(torch.ones(2))
    assert buffer.tolist() == [2.0, 1.0]
    assert buffer.dtype == torch.float32


def test_coarser_results_are_noticed() -> None:
    with InDouble() as double:
        torch.ones(2).type("torch.FloatTensor")
    assert double.eps == torch.finfo(torch.float32).eps
