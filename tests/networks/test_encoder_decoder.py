"""The encoder-decoder: parameters by formula, both sides, sharing, the laws, beams of a memory, keyed starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.refusals import refused

from glassformer.checks.check import IGNORES_SOURCE, check_model
from glassformer.foundation.errors import ConfigError
from glassformer.model.network import MODELS
from glassformer.model.slots import CROSS
from glassformer.networks.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from glassformer.recipe import load_recipe

V = 13
SMALL: dict[str, Any] = {"kind": "encoder-decoder", "width": 24, "layers": 2, "heads": 3, "context": 10}
EXERCISE: dict[str, Any] = {
    "kind": "encoder-decoder",
    "width": 256,
    "layers": 3,
    "heads": 8,
    "context": 100,
    "block": "post",
    "feedforward": {"kind": "relu", "expansion": 2},
    "head": {"kind": "untied", "bias": True},
    "embeddings": "separate",
}


def built(**changes: Any) -> EncoderDecoder:
    return MODELS.parse({**SMALL, **changes}).build(V, seed=0).eval()


def numbers(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_exercise_has_its_published_number_of_parameters() -> None:
    """bentrevett/pytorch-seq2seq, legacy/6: vocabularies of 7,853 and 5,893 words."""
    config = MODELS.parse(EXERCISE)
    assert numbers(config.shapes(7853, outputs=5893)) == 9_038_341
    assert config.cost(7853, outputs=5893, batch=1).parameters == 9_038_341


def test_the_base_model_of_2017() -> None:
    """Vaswani et al. 2017, table 3: 65 million with 37,000 shared tokens, here counted part by part; and how it is trained."""
    recipe = load_recipe("transformer-2017")
    config, training = recipe.model, recipe.training
    attention, norm = 4 * (512 * 512 + 512), 2 * 512
    feedforward = 512 * 2048 + 2048 + 2048 * 512 + 512
    layers = 6 * (attention + feedforward + 2 * norm) + 6 * (2 * attention + feedforward + 3 * norm)
    assert numbers(config.shapes(37_000)) == 37_000 * 512 + layers == 63_082_496
    # the rate of their equation 3, at every step
    rates = [training.lr * training.schedule.lr_multiplier(step - 1, training.steps) for step in (1, 100, 4000, 5000, 8000)]
    theirs = [512**-0.5 * min(step**-0.5, step * 4000**-1.5) for step in (1, 100, 4000, 5000, 8000)]
    assert rates == pytest.approx(theirs, rel=1e-3)
    assert (training.label_smoothing, training.weight_decay, training.optimizer.betas) == (0.1, 0.0, (0.9, 0.98))  # type: ignore[attr-defined]
    network = config.build(11, seed=0)
    ids_BT = torch.arange(5).unsqueeze(0)
    waves_TD = network.encoder.positions.table_TD[:5]  # type: ignore[attr-defined]
    embedded_BTD = network.encoder.positions.embed(network.encoder.embedding(ids_BT), ids_BT)  # type: ignore[attr-defined]
    torch.testing.assert_close(embedded_BTD[0], 512**0.5 * network.encoder.embedding.weight[:5] + waves_TD)  # type: ignore[attr-defined]


@pytest.mark.parametrize("cross", CROSS.names())
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"block": "post", "positions": "sinusoidal"},
        {"encoder": {"layers": 3, "feedforward": "gated"}, "embeddings": "separate"},
    ],
)
def test_it_counts_its_parameters(cross: str, changes: dict[str, Any]) -> None:
    config = MODELS.parse({**SMALL, "cross": cross, **changes})
    assert config.cost(V, batch=2).parameters == numbers(config.build(V, seed=0))


@pytest.mark.parametrize("changes", [{}, {"block": "post", "positions": "rotary", "embeddings": "separate"}])
def test_it_keeps_the_laws(changes: dict[str, Any]) -> None:
    report = check_model(built(**changes), laws=frozenset({"causality"}))
    assert report.passed, report
    assert set(report.tested) == {"causality", "batch", "state", "padding", "cache"}
    assert IGNORES_SOURCE not in report.notes


def test_a_network_that_ignores_its_source_is_reported() -> None:
    assert IGNORES_SOURCE in check_model(built(cross="none")).notes


def test_leaks_of_either_side_are_found() -> None:
    of_target = check_model(built(decoder={"merge": "reweight_sequence"}))
    assert "causality" in of_target.broken
    network = built()
    encode = network.encode

    def unpadded(source_ids_BS: torch.Tensor, source_padding_BS: Any = None, **more: Any) -> Any:
        return replace(encode(source_ids_BS, source_padding_BS, **more), padding_BS=None)

    network.encode = unpadded  # type: ignore[method-assign]
    assert check_model(network).broken == {"padding"}

    def mixed(source_ids_BS: torch.Tensor, source_padding_BS: Any = None, **more: Any) -> Any:
        memory = encode(source_ids_BS, source_padding_BS, **more)
        return replace(memory, vectors_BSD=memory.vectors_BSD + 0.01 * memory.vectors_BSD.mean(0, keepdim=True))

    network.encode = mixed  # type: ignore[method-assign]
    assert "batch" in check_model(network).broken


def test_sides_differ_where_the_recipe_says_so() -> None:
    network = built(encoder={"layers": 3, "positions": "sinusoidal"}, decoder={"mixer": {"kind": "dot", "fused": False}})
    assert (network.encoder.dims.layers, network.decoder.dims.layers) == (3, 2)
    assert network.encoder.config.positions.kind == "sinusoidal"
    assert network.decoder.config.positions.kind == "learned"
    assert not network.encoder.dims.causal
    assert network.decoder.dims.causal
    written = network.config.to_dict()
    assert EncoderDecoderConfig.parse({key: value for key, value in written.items() if key != "kind"}) == network.config


def test_sides_start_apart_and_a_change_of_one_leaves_the_other() -> None:
    plain, deeper = built(), built(encoder={"layers": 3})
    weights = dict(plain.named_parameters())
    assert not torch.equal(weights["encoder.blocks.0.feedforward.up.weight"], weights["decoder.blocks.0.feedforward.up.weight"])
    for name, parameter in deeper.named_parameters():
        if name.startswith("decoder"):
            assert torch.equal(parameter, weights[name])


def test_embeddings_are_shared_or_separate() -> None:
    shared, separate = built(), built(embeddings="separate")
    assert shared.encoder.embedding is shared.decoder.embedding
    assert numbers(separate) - numbers(shared) == V * 24
    two = MODELS.parse({**SMALL, "embeddings": "separate"}).build(V, outputs=17, seed=0)
    assert two(torch.zeros(1, 4, dtype=torch.long), torch.full((1, 3), 16)).shape == (1, 3, 17)
    with refused(ConfigError, "two-vocabularies"):
        MODELS.parse(SMALL).build(V, outputs=17, seed=0)


def test_one_source_serves_many_rows_and_a_stored_one_gives_the_same() -> None:
    network, ids_BT = built(), torch.randint(V, (6, 4))
    source_BS = torch.randint(V, (2, 7))
    memory = network.encode(source_BS)
    expected = network(source_BS.repeat_interleave(3, 0), ids_BT)
    torch.testing.assert_close(network.given(memory)(ids_BT), expected)
    kept = network.given(replace(memory, keep=True))
    kept(ids_BT[:2])
    torch.testing.assert_close(kept(ids_BT), expected)
    torch.testing.assert_close(kept(ids_BT), expected)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"causal": False}, "model.causal"),
        ({"block": "no_residual"}, "model.block"),
        ({"encoder": {"width": 12}}, "model.encoder.width"),
        ({"encoder": {"layerz": 2}}, "model.encoder.layerz"),
        ({"head": "classifier"}, "model.head"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=part.replace(".", r"\.")):
        MODELS.parse({**SMALL, **changes})
