"""The one builder: starts that are paired between models, laws of the whole model, looking that changes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tests.mixers import placed
from tests.refusals import refused
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError, UsageError
from glassformer.model.config import ModelConfig
from glassformer.model.initialisation import keyed
from glassformer.model.slots import MIXERS, Layer, Stack
from glassformer.model.tap import Tap
from glassformer.model.transformer import Transformer, build_model

B, T, V = 2, 5, 11
BASE = {"width": 12, "heads": 3, "layers": 2, "context": 7}


def model_of(seed: int = 3, **changes: object) -> Transformer:
    return build_model(ModelConfig.parse({**BASE, **changes}), V, seed=seed).eval()


@pytest.fixture
def ids_BT(rng) -> torch.Tensor:
    return torch.randint(V, (B, T), generator=rng)


def test_the_same_seed_gives_the_same_bits() -> None:
    torch.manual_seed(1)
    first = model_of(3).state_dict()
    torch.manual_seed(2)
    again, other = model_of(3).state_dict(), model_of(4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"norm": "rms"}, "norm"),
        ({"feedforward": "gated"}, "feedforward"),
        ({"feedforward": "relu"}, None),
        ({"positions": "none"}, "positions"),
        ({"head": "untied"}, "head"),
        ({"block": "post"}, "final_norm"),
        ({"mixer": {"kind": "dot", "fused": False}}, None),
        ({"dropout": 0.5}, None),
        ({"context": 13}, "positions"),
        ({"heads": 4}, None),
    ],
)
def test_changing_one_part_leaves_the_start_of_the_others_alone(changes: dict[str, object], changed: str | None) -> None:
    base, other = dict(model_of().named_parameters()), dict(model_of(**changes).named_parameters())
    shared = [name for name in base if name in other and base[name].shape == other[name].shape]
    assert all(torch.equal(base[name], other[name]) for name in shared)
    assert all(changed is not None and changed in name for name in {*base, *other} - set(shared))


@pytest.mark.parametrize(
    ("changes", "width"),
    [
        ({}, 24),
        ({"head_width": 5}, 30),
        ({"heads": 6, "mixer": {"kind": "grouped", "kv_heads": 2}}, 8),
        ({"mixer": "average"}, 24),
    ],
)
def test_the_cache_takes_no_more_than_is_said(changes: dict[str, object], width: int, ids_BT) -> None:
    """Keys and values of heads that are wider than the model together, or shared by groups of heads."""
    model = model_of(**changes)
    cache = model.new_cache(capacity=6, rows=B)
    cache.place_whole(slice(B))
    with torch.no_grad():
        model(ids_BT, cache=cache)
    taken = sum(buffer.nbytes for layer in cache.layers for buffer in layer._buffers.values())
    said = model.cache_bytes(rows=B, capacity=6)
    assert said == 2 * B * 6 * width * 4  # layers, rows, positions, numbers of a position, bytes
    assert taken == (said // 2 if changes.get("mixer") == "average" else said)  # which keeps no keys


def test_more_layers_keep_the_first_ones() -> None:
    two, three = dict(model_of().named_parameters()), dict(model_of(layers=3).named_parameters())
    for name in two:
        if name.endswith(("attention.output.weight", "feedforward.down.weight")):  # smaller by sqrt(2 * layers)
            torch.testing.assert_close(three[name] * math.sqrt(6), two[name] * math.sqrt(4))
        else:
            assert torch.equal(two[name], three[name])


def test_the_sizes_of_the_start() -> None:
    model = build_model(ModelConfig(width=256, heads=4, layers=2, context=64), 500, seed=0)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all()
        elif "norm" in name:
            assert (parameter == 1).all()
        else:
            expected = 0.02 / 2 if name.endswith(("attention.output.weight", "feedforward.down.weight")) else 0.02
            assert parameter.std().item() == pytest.approx(expected, rel=0.03), name
    first, second = model.blocks[0].feedforward.up.weight, model.blocks[1].feedforward.up.weight
    assert not torch.equal(first, second)


def test_no_peeking_ahead(ids_BT) -> None:
    model, changed = model_of(), ids_BT.clone()
    changed[:, 3:] = (changed[:, 3:] + 1) % V
    torch.testing.assert_close(model(ids_BT)[:, :3], model(changed)[:, :3])
    assert not torch.allclose(model(ids_BT)[:, 3:], model(changed)[:, 3:])
    open_model = model_of(causal=False)
    assert not torch.allclose(open_model(ids_BT)[:, :3], open_model(changed)[:, :3])


def test_rows_do_not_meet(ids_BT) -> None:
    model = model_of()
    torch.testing.assert_close(model(ids_BT)[1:], model(ids_BT[1:]))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_a_hidden_place_is_seen_by_no_query(ids_BT, fused: bool, causal: bool) -> None:
    """Place 3 is hidden: what stands there changes nothing for anybody else."""
    model = model_of(mixer={"kind": "dot", "fused": fused}, causal=causal)
    key_padding_mask_BS = torch.zeros(B, T, dtype=torch.bool)
    key_padding_mask_BS[:, 3] = True
    changed = ids_BT.clone()
    changed[:, 3] = (changed[:, 3] + 1) % V
    others = torch.tensor([0, 1, 2, 4])
    before, after = (
        model(ids_BT, key_padding_mask_BS=key_padding_mask_BS),
        model(changed, key_padding_mask_BS=key_padding_mask_BS),
    )
    assert torch.equal(before[:, others], after[:, others])
    assert not torch.allclose(model(ids_BT)[:, 4], before[:, 4])


@pytest.mark.parametrize("fused", [True, False])
def test_a_query_left_with_nothing_to_see_is_harmless(ids_BT, fused: bool) -> None:
    model = model_of(mixer={"kind": "dot", "fused": fused}).train()
    key_padding_mask_BS = torch.zeros(B, T, dtype=torch.bool)
    key_padding_mask_BS[0, :2] = True
    heads: list[torch.Tensor] = []
    model.blocks[0].attention.heads.register_forward_hook(lambda module, inputs, output: heads.append(output))
    logits_BTV = model(ids_BT, key_padding_mask_BS=key_padding_mask_BS)
    logits_BTV.square().sum().backward()
    assert (heads[0][0, :, :2] == 0).all()
    assert (heads[0][1] != 0).all()
    assert logits_BTV.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_places_said_are_the_places_meant(ids_BT) -> None:
    model = model_of()
    position_ids_BT = torch.arange(T).expand(B, T)
    torch.testing.assert_close(model(ids_BT, position_ids_BT=position_ids_BT), model(ids_BT))
    with pytest.raises(AssertionError):
        torch.testing.assert_close(model(ids_BT, position_ids_BT=position_ids_BT.flip(1)), model(ids_BT))


def test_reading_on_with_a_memory_is_reading_at_once(ids_BT) -> None:
    model, cache = model_of(), model_of().new_cache()
    cache.place_whole(torch.arange(B))
    pieces = [model(ids_BT[:, :3], cache=cache)]
    for place in range(3, T):
        position_ids_BT = torch.full((B, 1), place)
        cache.place(position_ids_BT, place + 1)
        pieces.append(model(ids_BT[:, place : place + 1], position_ids_BT=position_ids_BT, cache=cache))
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(ids_BT))


def test_too_many_tokens_are_a_sentence() -> None:
    with refused(ConfigError, "text-too-long", "model.context=7"):
        model_of()(torch.zeros(1, 8, dtype=torch.long))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("hidden", [False, True])
def test_looking_never_changes_the_answer(ids_BT, fused: bool, hidden: bool) -> None:
    model = model_of(mixer={"kind": "dot", "fused": fused})
    key_padding_mask_BS = torch.zeros(B, T, dtype=torch.bool)
    key_padding_mask_BS[:, 1] = hidden
    before = model(ids_BT, key_padding_mask_BS=key_padding_mask_BS if hidden else None)
    taps = {name: module for name, module in model.named_modules() if isinstance(module, Tap)}
    assert {"embedded", "final", "blocks.1.attention.mixer.pattern", "blocks.0.feedforward.neurons"} <= set(taps)
    for name, tap in taps.items():
        seen: list[torch.Tensor] = []
        handle = tap.register_forward_hook(lambda module, inputs, output, seen=seen: seen.append(output))
        looked = model(ids_BT, key_padding_mask_BS=key_padding_mask_BS if hidden else None)
        handle.remove()
        assert len(seen) == 1, f"{name} is never passed"
        torch.testing.assert_close(looked, before, rtol=1e-5, atol=1e-6)
        assert torch.equal(model(ids_BT, key_padding_mask_BS=key_padding_mask_BS if hidden else None), before)


def test_scores_come_from_the_features(ids_BT) -> None:
    model = model_of()
    assert torch.equal(model.head(model.features(ids_BT)), model(ids_BT))
    assert model.features(ids_BT).shape == (B, T, 12)


def test_no_layers_is_a_model_too(ids_BT) -> None:
    model = model_of(layers=0)
    assert model(ids_BT).shape == (B, T, V)
    assert len(model.blocks) == 0


def test_a_part_may_draw_its_own_start() -> None:
    model = model_of()
    model.blocks[0].attention.merge.init_weights = lambda generator: drawn.append(torch.rand(2, generator=generator))
    drawn: list[torch.Tensor] = []
    model.initialise(3)
    model.initialise(3)
    assert torch.equal(drawn[0], drawn[1])


def test_segments_are_added_and_the_embedding_is_normed() -> None:
    config = ModelConfig(width=12, heads=3, layers=0, context=7, causal=False, segments=2, embedding_norm=True, block="post")
    model = build_model(config, 11, seed=1)
    ids_BT, segments_BT = torch.tensor([[3, 4, 5]]), torch.tensor([[0, 1, 1]])
    plain = model.embedding(ids_BT) + model.positions.table.weight[:3]
    expected = torch.nn.functional.layer_norm(plain + model.segments.weight[segments_BT], (12,))
    torch.testing.assert_close(model.features(ids_BT, segments_BT=segments_BT), expected)
    zeros = model.features(ids_BT, segments_BT=torch.zeros_like(ids_BT))
    torch.testing.assert_close(model.features(ids_BT), zeros, rtol=0, atol=0)


def test_segments_for_a_model_without_them_are_refused() -> None:
    model = build_model(ModelConfig(width=12, heads=3, layers=1, context=7), 11, seed=1)
    with refused(ConfigError, "no-segments", "model.segments=2"):
        model(torch.tensor([[1]]), segments_BT=torch.tensor([[0]]))


def test_new_settings_leave_the_start_of_the_other_parts_alone() -> None:
    sizes = {"width": 12, "heads": 3, "layers": 2, "context": 7}
    plain = build_model(ModelConfig.parse(sizes), 11, seed=1).state_dict()
    richer = build_model(ModelConfig.parse({**sizes, "segments": 2, "embedding_norm": True}), 11, seed=1).state_dict()
    assert all(torch.equal(tensor, richer[name]) for name, tensor in plain.items())
    assert sum(tensor.numel() for tensor in richer.values()) - sum(tensor.numel() for tensor in plain.values()) == 2 * 12 + 24
    assert build_model(ModelConfig.parse({**sizes, "vocabulary": 13}), 11, seed=1).dims.vocabulary == 13


@pytest.mark.parametrize("mixer", [{"kind": "dot", "kv_heads": 1, "normaliser": "entmax"}, *MIXERS.names()], ids=str)
def test_packed_documents_are_as_if_each_stood_alone(mixer: Any) -> None:
    """With relative positions: two documents in one row give the scores that each has in a row of its own."""
    kind = mixer["kind"] if isinstance(mixer, dict) else mixer
    if kind.startswith("synthesizer"):
        pytest.skip("its scores are of places in the row")
    turned = "rotation" in MIXERS.get(kind).accepts_positions and kind != "persistent"  # whose memory is not turned
    positions = "rotary" if turned else "none"
    config = ModelConfig.parse(
        {"width": 12, "heads": 3, "layers": 2, "context": 9, "mixer": placed(mixer), "positions": positions}
    )
    model = build_model(config, 11, seed=1).double().eval()
    ids = torch.randint(11, (2, 7), generator=torch.Generator().manual_seed(3))
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1]]).expand(2, 7)
    packed = model(ids, document_ids_BS=documents)
    alone = torch.cat([model(ids[:, :3]), model(ids[:, 3:])], dim=1)
    torch.testing.assert_close(packed, alone, atol=1e-9, rtol=0)  # rotations are tables in float32
    assert torch.allclose(model(ids)[:, 3:], alone[:, 3:], atol=1e-6) == (kind == "none")


def test_a_prefix_sees_itself_and_nothing_later() -> None:
    model = build_model(ModelConfig(width=12, heads=3, layers=2, context=9), 11, seed=1).double().eval()
    ids, prefix = torch.arange(7).unsqueeze(0), torch.tensor([3])
    in_prefix, after = ids.clone(), ids.clone()
    in_prefix[0, 2], after[0, 4] = 9, 9
    found = model(ids, prefix_lengths_B=prefix)
    assert not torch.equal(model(in_prefix, prefix_lengths_B=prefix)[:, 0], found[:, 0])
    torch.testing.assert_close(model(after, prefix_lengths_B=prefix)[:, :4], found[:, :4], atol=1e-12, rtol=0)
    torch.testing.assert_close(model(ids, prefix_lengths_B=torch.tensor([0])), model(ids), atol=1e-12, rtol=0)


@pytest.mark.parametrize("mixer", ["gated_delta", "mamba2"])
def test_a_recurrence_refuses_a_prefix_that_it_cannot_show(mixer: str) -> None:
    sizes = {"width": 12, "heads": 3, "layers": 1, "context": 9, "positions": "none"}
    model = build_model(ModelConfig.parse({**sizes, "mixer": mixer}), 11, seed=1)
    with refused(UsageError, "no-prefix"):
        model(torch.arange(7).unsqueeze(0), prefix_lengths_B=torch.tensor([3]))


class Called(Stack):
    """Calls the layers of these numbers."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        super().__init__()
        self.numbers = numbers

    def forward(self, x_BTD: Tensor, layers: Sequence[Layer]) -> Tensor:
        for number in self.numbers:
            x_BTD = layers[number](x_BTD)
        return x_BTD


@pytest.mark.parametrize("numbers", [(0, 2), (0, 0, 1, 2), (1, 0, 2), ()])
def test_a_stack_calls_each_layer_once_in_order(numbers: tuple[int, ...], ids_BT: Tensor) -> None:
    """Else a layer would be counted and not run, or would read its own cache."""
    model = model_of(layers=3)
    before = model(ids_BT)
    model.stack = Called(numbers)
    with refused(ConfigError, "layers-out-of-order", str(list(numbers)), "model.stack=plain"):
        model(ids_BT)
    model.stack = Called((0, 1, 2))
    assert torch.equal(model(ids_BT), before)


def test_a_head_of_another_width_is_refused(ids_BT: Tensor) -> None:
    model = model_of()
    model.head = nn.Linear(12, 4)
    with refused(ConfigError, "head-outputs", "4", "11"):
        model(ids_BT)


def test_what_is_no_module_is_no_part() -> None:
    with refused(ConfigError, "build-gives-no-module", "blocks.0.norm", "builtin"):
        keyed(torch.tanh, "blocks.0.norm")  # type: ignore[type-var]
