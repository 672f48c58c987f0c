"""The suite tests the tests: variants that do not do what they say are refused, each with its sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest
import torch
from tests.refusals import refused
from torch import Tensor, nn

from glassformer.checks.conformance import REQUIREMENTS, SLOTS, cases, conform
from glassformer.foundation.errors import CheckFailed, UsageError
from glassformer.foundation.registry import Slot
from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.kv_cache import KVCache, LayerCache
from glassformer.model.slots import (
    BLOCKS,
    MERGES,
    MIXERS,
    POSITIONS,
    Block,
    BlockConfig,
    LayerParts,
    Merge,
    MergeConfig,
    Mixer,
    MixerConfig,
    Positions,
)
from glassformer.model.tap import STREAM, Tap


@pytest.fixture(autouse=True)
def _forget_variants() -> Iterator[None]:
    """Variants of these tests are gone afterwards."""
    for slot in (MIXERS, MERGES, BLOCKS):
        slot.names()
    before = {slot: dict(slot._variants) for slot in (MIXERS, MERGES, BLOCKS)}
    yield
    for slot, variants in before.items():
        slot._variants.clear()
        slot._variants.update(variants)


class Values(Mixer):
    """Each token's own value, plus whatever a test adds to it."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads, self.values, self.pattern = dims.heads, nn.Linear(dims.width, dims.width), Tap()

    def forward(self, x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: KVCache | None) -> Tensor:
        return self.added(split_heads(self.values(x_BTD), self.heads))

    def added(self, z_BHTE: Tensor) -> Tensor:
        return z_BHTE


class Honest(MixerConfig):
    """A mixer that mixes nothing, for these tests."""

    module: ClassVar[type[Values]] = Values

    def build(self, dims: Dims) -> Mixer:
        return self.module(dims)

    def flops(self, dims: Dims, batch: int, length: int) -> int:
        return matmul_flops(batch * length, dims.width, dims.width)


def failures(config: type[MixerConfig]) -> dict[str, str]:
    MIXERS.variant("for_tests")(config)
    found = conform("model.mixer", "for_tests")
    return {name.rpartition("-")[2]: sentence for name, sentence in found.items()}


def test_an_honest_variant_conforms() -> None:
    assert failures(Honest) == {}


def test_wrong_counts_are_named_with_both_numbers() -> None:
    class Miscounted(Honest):
        """Counts no product."""

        def flops(self, dims: Dims, batch: int, length: int) -> int:
            return 0

    found = failures(Miscounted)
    assert set(found) == {"flops"}
    assert "torch counts" in found["flops"]


def test_a_leak_that_is_not_declared() -> None:
    class Leaky(Values):
        def added(self, z_BHTE: Tensor) -> Tensor:
            return z_BHTE + z_BHTE.mean(2, keepdim=True)

    class LeakyConfig(Honest):
        """Sees the mean of all."""

        module = Leaky

    MIXERS.variant("for_tests")(LeakyConfig)
    found = conform("model.mixer", "for_tests")
    assert "not declared in ``breaks``. causality: a leak from the future" in found["model.mixer=for_tests-laws"]
    assert "not declared in ``breaks``. padding: " in found["model.mixer=for_tests in an encoder-laws"]


def test_a_declared_leak_that_is_none() -> None:
    class Modest(Honest):
        """Says it leaks, and does not."""

        breaks: ClassVar[frozenset[str]] = frozenset({"batch"})

    assert "declares 'batch', but the check finds that it holds" in failures(Modest)["laws"]


def test_a_fast_path_that_is_another_function() -> None:
    class Hasty(Values):
        def added(self, z_BHTE: Tensor) -> Tensor:
            return z_BHTE if self.pattern.in_use else 1.001 * z_BHTE

    class HastyConfig(Honest):
        """Almost the reference implementation."""

        module = Hasty

    assert set(failures(HastyConfig)) == {"fast path", "together"}


def test_positions_that_are_declared_and_crash() -> None:
    """Alone, with added positions, every case passes; with rotated ones its own mistake shows."""

    class Rotated(Values):
        def forward(self, x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: KVCache | None) -> Tensor:
            at_BT = context.query_position_ids(x_BTD.shape[1], x_BTD.device)
            turned = positions.rotate(x_BTD, at_BT)  # not yet split into heads
            return split_heads(self.values(turned), self.heads)

    class RotatedConfig(Honest):
        """Declares rotation."""

        accepts_positions: ClassVar[frozenset[str]] = frozenset({"nothing", "embedding", "rotation"})
        module = Rotated

    MIXERS.variant("for_tests")(RotatedConfig)
    found = conform("model.mixer", "for_tests")
    assert found
    assert all("with positions=rotary" in name and name.endswith("together") for name in found)


def test_a_block_that_calls_its_feedforward_with_vectors_alone() -> None:
    """With most feed-forwards that is enough; with one that reads the mask and a cache it is not."""

    class Hasty(Block):
        def __init__(self, make: LayerParts) -> None:
            super().__init__()
            self.attention, self.feedforward = make.attention(), make.feedforward()
            self.norms, self.after = nn.ModuleList([make.norm(), make.norm()]), Tap(STREAM)

        def forward(self, x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: LayerCache | None) -> Tensor:
            x_BTD = x_BTD + self.attention(self.norms[0](x_BTD), context, positions, cache)
            changed_BTD: Tensor = self.feedforward(self.norms[1](x_BTD))
            return self.after(x_BTD + changed_BTD)

    class HastyConfig(BlockConfig):
        """A block for this test."""

        norm_at_end: ClassVar[bool] = True

        def build(self, dims: Dims, make: LayerParts) -> Block:
            return Hasty(make)

    BLOCKS.variant("for_tests")(HastyConfig)
    assert set(conform("model.block", "for_tests")) == {
        "model.block=for_tests with feedforward=convolved-together",
        "model.block=for_tests with feedforward=convolved in an encoder-together",
    }


def test_what_leaks_in_a_list_alone() -> None:
    class Last(Values):
        """Honest in the first layer, and not after it."""

        def __init__(self, dims: Dims) -> None:
            super().__init__(dims)
            self.layer = dims.layer

        def added(self, z_BHTE: Tensor) -> Tensor:
            return z_BHTE + z_BHTE.mean(2, keepdim=True) * (self.layer == 1)

    class LastConfig(Honest):
        """Leaks in layer 1."""

        module = Last

    MIXERS.variant("for_tests")(LastConfig)
    found = conform("model.mixer", "for_tests")
    assert "model.mixer=for_tests as entry 1 of a list-together" in found
    assert "model.mixer=for_tests as entry 0 of a list-together" not in found


def test_a_start_that_goes_by_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_name(model: nn.Module, seed: int, std_of: object) -> None:
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.3, generator=torch.Generator().manual_seed(100 * seed + len(name)))
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    monkeypatch.setattr("glassformer.model.transformer.initialise", by_name)
    assert set(failures(Honest)) == {"names"}


def test_parameters_that_nothing_draws_or_trains() -> None:
    class Undrawn(Values):
        def __init__(self, dims: Dims) -> None:
            super().__init__(dims)
            self.forgotten = nn.Parameter(torch.empty(3))

    class UndrawnConfig(Honest):
        """Has a parameter that is never used."""

        module = Undrawn

    found = failures(UndrawnConfig)
    assert "forgotten is not initialised; define ``init_weights(generator)``" in found["seed"]
    assert "no gradient reaches" in found["gradients"]


def test_what_is_declared_untrained_must_get_no_gradient() -> None:
    class Trained(Honest):
        """Says its values are never trained."""

        def untrained(self, dims: Dims) -> dict[str, slice]:
            return {"values.weight": slice(0, 2)}

    assert "is declared untrained, but a gradient reaches it" in failures(Trained)["gradients"]


@pytest.mark.parametrize(
    ("declared", "reduced", "found"),
    [(("size",), Tensor.sum, set()), ((), Tensor.sum, {"own losses"}), (("size",), Tensor.mean, {"own losses"})],
)
def test_own_losses_are_declared_sums(declared: tuple[str, ...], reduced: Callable[[Tensor], Tensor], found: set[str]) -> None:
    class Sized(Values):
        def forward(self, x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: KVCache | None) -> Tensor:
            z_BHTE = super().forward(x_BTD, context, positions, cache)
            context.add_loss("size", reduced(z_BHTE.square()), weight=1.0)
            return z_BHTE

    class SizedConfig(Honest):
        """Adds a loss."""

        own_losses: ClassVar[tuple[str, ...]] = declared
        module = Sized

    assert set(failures(SizedConfig)) == found


def test_wrong_shape() -> None:
    class Swapped(Merge):
        def forward(self, z_BHTE: Tensor) -> Tensor:
            return z_BHTE.transpose(1, 2).flatten(-2)[..., :-1]

    class SwappedConfig(MergeConfig):
        """Loses a number."""

        def build(self, dims: Dims) -> Merge:
            return Swapped()

    MERGES.variant("for_tests")(SwappedConfig)
    (case,) = [case for case in cases("model.merge", "for_tests") if case.name == "shapes"]
    with pytest.raises((CheckFailed, RuntimeError)):
        case.run()


def test_cases_cover_every_variant_of_every_slot_and_every_example() -> None:
    named = {(case.variant.slot, case.variant.kind) for case in cases()}
    assert named == {(slot, kind) for slot in SLOTS for kind in Slot.every[slot].names()}
    found = cases("model.mixer", "argmax")
    together = [case for case in found if case.name == "together"]
    assert len(found) - len(together) == 2 * len(REQUIREMENTS) + 1
    accepted = MIXERS.get("argmax").accepts_positions
    partners = {case.variant.beside["positions"] for case in together if case.variant.beside}
    assert partners == {at for at in POSITIONS.names() if POSITIONS.get(at).applies_to in accepted}
    assert {(case.variant.entry, case.variant.causal) for case in together if case.variant.entry is not None} == {
        (entry, causal) for entry in (0, 1) for causal in (True, False)
    }
    names = [str(case) for case in found]
    assert "model.mixer=argmax in an encoder-laws" in names
    assert "model.mixer=argmax(straight_through=True) in an encoder-together" in names
    assert str(together[-1]) == "model.mixer=argmax as entry 1 of a list in an encoder-together"


def test_other_slots_are_refused() -> None:
    with refused(UsageError, "unknown-slot", "tokenizer"):
        cases("tokenizer")
