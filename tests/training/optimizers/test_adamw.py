"""AdamW: one step worked out on paper, its settings, and to the bit what torch's class gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.foundation.errors import ConfigError
from glassformer.training.optimizers.adamw import AdamW, AdamWConfig


def test_the_first_step_by_hand() -> None:
    """Bias-corrected moments of one gradient g are g and g squared: the step is the rate times g/(|g| + eps)."""
    parameters = {"w": nn.Parameter(torch.tensor([[2.0, -4.0]])), "b": nn.Parameter(torch.tensor([1.0]))}
    (optimizer,) = AdamWConfig(eps=1e-12).build(parameters, lr=0.1, weight_decay=0.5)
    parameters["w"].grad, parameters["b"].grad = torch.tensor([[3.0, -0.01]]), torch.tensor([-7.0])
    optimizer.step()
    # w decays by 0.1 * 0.5 first: 1.9 and -3.8; then 0.1 against the sign of the gradient. b does not decay.
    torch.testing.assert_close(parameters["w"].detach(), torch.tensor([[1.8, -3.7]]))
    torch.testing.assert_close(parameters["b"].detach(), torch.tensor([1.1]))


def test_settings() -> None:
    config = AdamWConfig.parse({"betas": [0.8, 0.9], "eps": 1e-6})
    assert config.betas == (0.8, 0.9)
    assert AdamWConfig.parse({"betas": config.to_dict()["betas"]}).betas == (0.8, 0.9)
    (optimizer,) = config.build({"w": nn.Parameter(torch.ones(2, 2))}, lr=0.1, weight_decay=0.0)
    assert optimizer.param_groups[0]["betas"] == (0.8, 0.9)


@pytest.mark.parametrize("betas", [[1.0, 0.9], [-0.1, 0.9], [0.9], [0.9, 1.5]])
def test_impossible_betas_are_refused_before_anything_starts(betas: list[float]) -> None:
    with pytest.raises(ConfigError, match="betas"):
        AdamWConfig.parse({"betas": betas})


def test_a_layer_decay_gives_lower_layers_lower_rates() -> None:
    names = ("embedding.weight", "blocks.0.a.weight", "blocks.0.a.bias", "blocks.1.a.weight", "head.weight")
    parameters = {name: nn.Parameter(torch.ones(3) if "bias" in name else torch.ones(2, 3)) for name in names}
    (optimizer,) = AdamWConfig(layer_decay=0.5).build(parameters, lr=0.8, weight_decay=0.1)
    by_parameter = {parameter: group for group in optimizer.param_groups for parameter in group["params"]}
    rates = {name: by_parameter[parameter]["lr"] for name, parameter in parameters.items()}
    assert rates == pytest.approx(dict(zip(names, (0.1, 0.2, 0.2, 0.4, 0.8))))
    assert by_parameter[parameters["blocks.0.a.bias"]]["weight_decay"] == 0.0
    assert by_parameter[parameters["blocks.0.a.weight"]]["weight_decay"] == 0.1
    (plain,) = AdamWConfig().build(parameters, lr=0.8, weight_decay=0.1)
    assert {group["lr"] for group in plain.param_groups} == {0.8}


@pytest.mark.parametrize("decay", [0.0, 1.1, -0.5])
def test_an_impossible_layer_decay_is_refused(decay: float) -> None:
    with pytest.raises(ConfigError, match="layer_decay"):
        AdamWConfig.parse({"layer_decay": decay})


SETTINGS = {"lr": 0.03, "betas": (0.8, 0.97), "eps": 0.01}


def same_weights_twice() -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    rng = torch.Generator().manual_seed(5)
    values = [torch.randn(shape, generator=rng) for shape in ((3, 7), (5,), (2, 3, 4))]
    return [nn.Parameter(value.clone()) for value in values], [nn.Parameter(value.clone()) for value in values]


@pytest.mark.parametrize("capturable", [False, True])
@pytest.mark.parametrize("fused", [True, False])
def test_equals_torch_bit_for_bit(fused: bool, capturable: bool) -> None:
    """Over steps with changing rates, in two groups, with a weight that has a gradient at every other step only."""
    if capturable and not fused:
        pytest.skip("torch takes this way on a GPU only")
    ours, theirs = same_weights_twice()
    split = [{"weight_decay": 0.2}, {"weight_decay": 0.0}]
    mine = AdamW([{"params": ours[:1], **split[0]}, {"params": ours[1:], **split[1]}], **SETTINGS)
    groups = [{"params": theirs[:1], **split[0]}, {"params": theirs[1:], **split[1]}]
    torchs = torch.optim.AdamW(groups, **SETTINGS, fused=fused, capturable=capturable)
    for group in mine.param_groups:
        group.update(fused=fused, capturable=capturable)
    rng = torch.Generator().manual_seed(6)
    for step in range(7):
        for number, (own, other) in enumerate(zip(ours, theirs)):
            gradient = torch.randn(own.shape, generator=rng)
            own.grad, other.grad = (None, None) if number == 1 and step % 2 else (gradient.clone(), gradient.clone())
        for optimizer in (mine, torchs):
            for group in optimizer.param_groups:
                group["lr"] = SETTINGS["lr"] / (step + 1)
            optimizer.step()
    for own, other in zip(ours, theirs):
        assert torch.equal(own, other)
        assert list(mine.state[own]) == list(torchs.state[other])
        for key, value in torchs.state[other].items():
            assert torch.equal(mine.state[own][key], value), key
            assert mine.state[own][key].dtype == value.dtype, key


def test_is_fused_where_torch_has_the_kernel() -> None:
    ours, _ = same_weights_twice()
    assert [group["fused"] for group in AdamW([{"params": ours}], **SETTINGS).param_groups] == [True]
    elsewhere = [nn.Parameter(torch.ones(2, device="meta"))]
    assert [group["fused"] for group in AdamW([{"params": elsewhere}], **SETTINGS).param_groups] == [False]


def test_complex_weights_step_as_torchs_do() -> None:
    """The fused kernel has no complex numbers."""
    values = torch.randn(3, 2, dtype=torch.complex64, generator=torch.Generator().manual_seed(5))
    own, other, plain = (nn.Parameter(one) for one in (values.clone(), values.clone(), torch.ones(2)))
    mine, torchs = AdamW([{"params": [own, plain], "weight_decay": 0.1}], **SETTINGS), torch.optim.AdamW([other], **SETTINGS)
    torchs.param_groups[0]["weight_decay"] = 0.1
    for _ in range(3):
        own.grad, other.grad, plain.grad = 2 * values.conj(), 2 * values.conj(), torch.ones(2)
        mine.step()
        torchs.step()
    assert torch.equal(own, other)
    assert plain.detach().max() < 1.0
