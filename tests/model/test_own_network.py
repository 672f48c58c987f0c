"""A module of a user's own as a network: only ``forward(ids)`` is asked; what it gives is checked; its cost is counted."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from tests.refusals import refused
from torch import Tensor, nn

from glassformer.checks.check import check_model
from glassformer.foundation.errors import ConfigError
from glassformer.model.network import NetworkConfig
from glassformer.model.own_network import OwnNetwork

V, T, D = 11, 7, 5


class Table(nn.Module):
    """The smallest language model: a row of scores for each id."""

    def __init__(self, outputs: int = V) -> None:
        super().__init__()
        self.scores = nn.Embedding(V, outputs)

    def forward(self, ids: Tensor) -> Any:
        return self.scores(ids)


class Summed(Table):
    """One row of scores for each row of ids."""

    def forward(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Any:
        seen = torch.ones_like(ids) if key_padding_mask is None else (~key_padding_mask).long()
        return (self.scores(ids) * seen.unsqueeze(-1)).sum(1)


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.first, self.second = nn.Embedding(V, D), nn.Linear(D, 3), nn.Linear(3, V, bias=False)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, ids: Tensor) -> tuple[Tensor, None]:
        return self.second(self.first(self.embed(ids))) * self.scale, None


class Config(NetworkConfig):
    """Whatever ``made`` makes."""

    kind: ClassVar[str] = "mine"
    made: ClassVar[Any] = Table

    def build(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> Any:
        return type(self).made()


def config(made: Any) -> Config:
    return type("Made", (Config,), {"made": staticmethod(made), "__doc__": "One."})(context=T)


def network(made: Any, outputs: int | None = None, seed: int = 1) -> OwnNetwork:
    found = config(made).network(V, outputs=outputs, seed=seed)
    assert isinstance(found, OwnNetwork)
    return found


def test_torchs_own_start_comes_from_the_seed_and_disturbs_nobody() -> None:
    before = torch.random.get_rng_state()
    one, two, other = network(Table), network(Table), network(Table, seed=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.module.scores.weight, two.module.scores.weight)
    assert not torch.equal(one.module.scores.weight, other.module.scores.weight)


def test_scores_may_be_the_first_of_several() -> None:
    assert network(Linear)(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 3, V)


def test_scores_may_stand_in_a_dict() -> None:
    class Named(Table):
        def forward(self, ids: Tensor) -> Any:
            return {"loss": None, "logits": self.scores(ids)}

    assert network(Named)(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 3, V)
    assert check_model(network(Named)).passed


@pytest.mark.parametrize(
    ("made", "outputs", "part"),
    [(lambda: Table(V + 1), None, "(2, 3, 12)"), (lambda: Summed(), None, "(2, 11)"), (lambda: Table(4), None, "(2, 3, 4)")],
)
def test_what_does_not_fit_the_recipe_is_refused(made: Any, outputs: int | None, part: str) -> None:
    with refused(ConfigError, "own-scores-shape", part, "model.kind=mine"):
        network(made, outputs)(torch.zeros(2, 3, dtype=torch.long))
    with refused(ConfigError, "own-scores-shape", "model.kind=mine"):  # not "could not be judged"
        check_model(network(made, outputs))


def test_what_is_no_module_is_refused() -> None:
    with refused(ConfigError, "build-gives-no-module", "model.kind=mine"):
        network(lambda: 3)


def test_rows_and_padding() -> None:
    rows, tokens = network(lambda: Summed(4), outputs=4), network(Table)
    assert (rows.pools, rows.hides, rows.dims.causal) == (True, ("right",), False)
    assert (tokens.pools, tokens.hides, tokens.dims.causal) == (False, (), True)
    with refused(ConfigError, "takes-no-padding", "key_padding_mask"):
        tokens.features(torch.zeros(1, 2, dtype=torch.long), key_padding_mask_BS=torch.zeros(1, 2, dtype=torch.bool))
    with refused(ConfigError, "beyond-context"):
        tokens(torch.zeros(1, T + 1, dtype=torch.long))


def test_the_cost_is_that_of_the_built_network() -> None:
    batch, cost = 3, config(Linear).cost(V, batch=3)
    by_name = {part.name: part for part in cost.parts}
    assert cost.parameters == sum(p.numel() for p in network(Linear).parameters())
    assert by_name["first (Linear)"].forward_flops == 2 * batch * T * D * 3
    assert by_name["second (Linear)"].forward_flops == 2 * batch * T * 3 * V
    assert by_name["Linear itself"].parameters == 1
    products = 2 * batch * T * (D * 3 + 3 * V)
    assert cost.step_flops == 3 * products  # the table is trained, so every product has two more
    assert cost.activation_bytes > 0


def test_the_cost_of_what_has_nothing_to_train() -> None:
    class Constant(nn.Module):
        def forward(self, ids: Tensor) -> Any:
            return torch.zeros(*ids.shape, V)

    cost = config(Constant).cost(V, batch=3)
    assert (cost.parameters, cost.forward_flops, cost.step_flops) == (0, 0, 0)


def test_causality_is_judged_by_the_plain_call() -> None:
    class Reversed(Table):
        def forward(self, ids: Tensor) -> Any:
            return self.scores(ids.flip(1))

    assert check_model(network(Table), laws=frozenset({"causality"})).judged["causality"] == "passed"
    assert "causality" in check_model(network(Reversed), laws=frozenset({"causality"})).broken


def test_padding_is_asked_only_where_rows_are_padded() -> None:
    class Blind(Summed):
        def forward(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Any:
            return self.scores(ids).sum(1)

    blind = network(lambda: Blind(4), outputs=4)
    assert "padding" in check_model(blind, laws=frozenset({"padding"})).broken
    assert "padding" in check_model(blind, laws=frozenset()).not_judged
    assert check_model(network(lambda: Summed(4), outputs=4), laws=frozenset({"padding"})).passed
    assert "padding" in check_model(network(Table), laws=frozenset({"padding"})).cannot_tell
