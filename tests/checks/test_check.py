"""The whole check: planted faults are found and named, honest models pass, nothing is changed by looking."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.refusals import refused
from torch import Tensor, nn

from glassformer.checks.check import check_model
from glassformer.foundation.errors import CheckFailed, UsageError
from glassformer.model.attention_context import AttentionContext
from glassformer.model.config import ModelConfig
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import Mixer, Positions
from glassformer.model.transformer import Transformer, build_model

CONTEXT, VOCABULARY = 11, 13
TINY = {"width": 12, "heads": 3, "layers": 2, "context": CONTEXT}


def tiny(**changes: Any) -> Transformer:
    return build_model(ModelConfig.parse({**TINY, **changes}), VOCABULARY, seed=1)


def mixer_of(model: Transformer, layer: int) -> Any:
    return model.blocks[layer].attention.mixer  # type: ignore[union-attr]


class MaskOf(Mixer):
    """Dot-product attention of a given mixer's weights with a mask of one's own: [H, T, S] from the length."""

    def __init__(self, dot: Any, mask: Callable[[int], Tensor]) -> None:
        super().__init__()
        self.heads, self.qkv, self.mask = dot.heads, dot.qkv, mask

    def forward(self, x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: KVCache | None) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x_BTD).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return torch.softmax(scores.masked_fill(~self.mask(x_BTD.shape[1]), -torch.inf), -1) @ v


def off_by_one(length: int) -> Tensor:
    return torch.ones(1, length, length, dtype=torch.bool).tril(1)


def one_head_unmasked(length: int) -> Tensor:
    mask = torch.ones(3, length, length, dtype=torch.bool).tril()
    mask[1] = True
    return mask


def leaking(
    model: Transformer, layer: int, size: float, when: Callable[[Any, Tensor], bool] = lambda m, z: True
) -> Transformer:
    """Every place of a mixer's output gets a share of the next place's."""

    def hook(module: Any, inputs: Any, z_BHTE: Tensor) -> Tensor:
        return z_BHTE + size * z_BHTE.roll(-1, dims=2) if when(module, z_BHTE) else z_BHTE

    mixer_of(model, layer).register_forward_hook(hook)
    return model


def laws(report: Any) -> list[str]:
    return [finding.law for finding in report.findings]


class TestHonestModels:
    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"dropout": 0.2, "block": "post"},
            {"mixer": "argmax", "positions": "none"},
            {"mixer": "synthesizer", "positions": "alibi", "merge": {"kind": "shuffle", "redrawn": True}},
            {"causal": False, "positions": "t5", "merge": "reweight_position"},
        ],
    )
    def test_pass_without_a_note(self, changes: dict[str, Any]) -> None:
        report = check_model(tiny(**changes))
        assert report.passed, str(report)
        assert report.notes == ()

    def test_every_law_is_tested_on_a_decoder(self) -> None:
        report = check_model(tiny())
        assert set(report.tested) == {"causality", "batch", "state", "padding", "cache"}
        assert "up to 11" in report.tested["causality"]
        assert "gradients" in report.tested["causality"]

    def test_checking_leaves_no_trace(self) -> None:
        model = tiny(dropout=0.2)
        model.blocks[0].eval()
        norm = nn.BatchNorm1d(12)
        model.blocks[1].register_module("extra", norm)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        modes = [module.training for module in model.modules()]
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        check_model(model)
        assert torch.equal(torch.rand(3), expected)
        assert [module.training for module in model.modules()] == modes
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
        assert all(parameter.grad is None for parameter in model.parameters())
        assert torch.get_default_dtype() == torch.float32

    @pytest.mark.slow
    def test_thorough_check_tries_every_cut(self) -> None:
        model = build_model(ModelConfig.parse({**TINY, "context": 40}), VOCABULARY, seed=1)
        quick, thorough = check_model(model), check_model(model, quick=False)
        assert thorough.passed
        assert int(thorough.tested["causality"].split()[0]) > int(quick.tested["causality"].split()[0])


class TestPublishedReweighting:
    def test_leaks_from_the_future_and_from_other_rows_at_the_merge_of_the_first_layer(self) -> None:
        report = check_model(tiny(merge="reweight"))
        assert laws(report) == ["causality", "batch"]
        assert [finding.where for finding in report.findings] == ["blocks.0.attention.merge"] * 2
        assert "a leak from the future" in report.findings[0].sentence
        assert "a leak from other rows" in report.findings[1].sentence
        assert len(report.findings[0].example["tokens"]) == 2

    def test_per_sequence_leaks_from_the_future_only(self) -> None:
        report = check_model(tiny(merge="reweight_sequence"))
        assert laws(report) == ["causality"]
        assert report.findings[0].where == "blocks.0.attention.merge"

    def test_per_position_is_honest(self) -> None:
        assert check_model(tiny(merge="reweight_position")).passed


class TestPlantedFaults:
    def test_mask_off_by_one(self) -> None:
        model = tiny()
        model.blocks[1].attention.mixer = MaskOf(mixer_of(model, 1), off_by_one)
        finding = check_model(model).findings[0]
        assert (finding.law, finding.where) == ("causality", "blocks.1.attention.mixer")
        assert finding.from_position == finding.to_position + 1

    def test_mask_missing_in_one_head_of_one_layer(self) -> None:
        model = tiny()
        model.blocks[1].attention.mixer = MaskOf(mixer_of(model, 1), one_head_unmasked)
        finding = check_model(model).findings[0]
        assert (finding.law, finding.where) == ("causality", "blocks.1.attention.mixer")

    def test_normalisation_over_time(self) -> None:
        class OverTime(nn.Module):
            def forward(self, x_BTD: Tensor) -> Tensor:
                return (x_BTD - x_BTD.mean(1, keepdim=True)) / x_BTD.std(1, keepdim=True, correction=0).add(1e-5)

        model = tiny()
        model.blocks[1].attention_norm = OverTime()
        report = check_model(model)
        assert laws(report) == ["causality"]
        assert report.findings[0].where == "blocks.1.attention_norm"

    def test_batch_normalisation_is_found_in_training_mode(self) -> None:
        class BatchNorm(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norm = nn.BatchNorm1d(12)

            def forward(self, x_BTD: Tensor) -> Tensor:
                return self.norm(x_BTD.transpose(1, 2)).transpose(1, 2)

        model = tiny()
        model.blocks[0].feedforward_norm = BatchNorm()
        report = check_model(model)
        assert laws(report) == ["causality", "batch"]
        assert {finding.where for finding in report.findings} == {"blocks.0.feedforward_norm.norm"}
        assert {finding.example["mode"] for finding in report.findings} == {"training"}

    @pytest.mark.parametrize("layer", [0, 1])
    def test_leak_of_a_millionth_in_one_layer(self, layer: int) -> None:
        finding = check_model(leaking(tiny(), layer, 1e-6)).findings[0]
        assert (finding.law, finding.where) == ("causality", f"blocks.{layer}.attention.mixer")
        assert 0 < finding.size < 1e-6

    def test_leak_only_at_the_last_position_of_a_full_context(self) -> None:
        model = build_model(ModelConfig.parse({**TINY, "context": 70}), VOCABULARY, seed=1)

        def hook(module: Any, inputs: Any, z_BHTE: Tensor) -> Tensor:
            if z_BHTE.shape[2] < 70:
                return z_BHTE
            last_BHE = inputs[0][:, -1].unflatten(-1, (3, -1))
            return torch.cat([z_BHTE[:, :, :41], z_BHTE[:, :, 41:42] + 1e-6 * last_BHE.unsqueeze(2), z_BHTE[:, :, 42:]], dim=2)

        mixer_of(model, 1).register_forward_hook(hook)
        finding = check_model(model).findings[0]
        assert (finding.law, finding.from_position, finding.to_position) == ("causality", 69, 41)
        assert finding.where == "blocks.1.attention.mixer"

    def test_leak_only_in_training_mode(self) -> None:
        finding = check_model(leaking(tiny(dropout=0.1), 1, 1e-6, lambda module, z: module.training)).findings[0]
        assert (finding.law, finding.where, finding.example["mode"]) == ("causality", "blocks.1.attention.mixer", "training")

    def test_leak_only_in_the_fused_path(self) -> None:
        finding = check_model(leaking(tiny(), 0, 1e-6, lambda module, z: module.takes_fast_path)).findings[0]
        assert (finding.law, finding.where) == ("causality", "blocks.0.attention.mixer")

    def test_leak_only_in_the_definition(self) -> None:
        finding = check_model(leaking(tiny(), 0, 1e-3, lambda module, z: not module.takes_fast_path)).findings[0]
        assert finding.example["path"] == "the reference implementation, as when looked at"

    def test_leak_only_in_float32(self) -> None:
        finding = check_model(leaking(tiny(), 0, 0.1, lambda module, z: z.dtype == torch.float32)).findings[0]
        assert (finding.where, finding.example["precision"]) == ("blocks.0.attention.mixer", "float32")

    def test_leak_behind_a_gate_that_starts_closed(self) -> None:
        class Gated(nn.Module):
            def __init__(self, inner: nn.Module) -> None:
                super().__init__()
                self.inner, self.gate = inner, nn.Parameter(torch.zeros(()))

            def forward(self, x_BTD: Tensor) -> Tensor:
                return self.inner(x_BTD) + self.gate * x_BTD.mean(1, keepdim=True)

        model = tiny()
        model.blocks[1].feedforward = Gated(model.blocks[1].feedforward)  # type: ignore[arg-type]
        finding = check_model(model).findings[0]
        assert (finding.law, finding.where) == ("causality", "blocks.1.feedforward")
        assert "zero parameters" in finding.example["weights"]

    def test_length_of_the_row_matters(self) -> None:
        model = tiny()
        model.embedded.register_forward_hook(lambda module, inputs, x_BTD: x_BTD / x_BTD.shape[1])
        finding = check_model(model).findings[0]
        assert (finding.law, finding.example["found_by"]) == ("causality", "length")

    def test_number_of_rows_matters(self) -> None:
        model = tiny()
        model.embedded.register_forward_hook(lambda module, inputs, x_BTD: x_BTD * (1 + len(x_BTD)))
        finding = check_model(model).findings[0]
        assert (finding.law, finding.example["found_by"]) == ("batch", "the row alone")

    def test_fault_between_modules_is_named_after_the_caller(self) -> None:
        model = tiny()
        block = model.blocks[1]
        inner = block.forward

        def forward(x_BTD: Tensor, *others: Any) -> Tensor:
            return inner(x_BTD + 1e-3 * x_BTD.roll(-1, dims=1), *others)

        block.forward = forward
        assert check_model(model).findings[0].where == "blocks.1"


class _Shifted:
    """A layer's cache that forgets the newest entry when it is read step by step."""

    def __init__(self, inner: KVCache) -> None:
        self.inner = inner

    def extend(self, name: str, new_BHTE: Tensor) -> Tensor:
        everything = self.inner.extend(name, new_BHTE)
        return everything if everything is new_BHTE else torch.cat([everything[:, :, :1], everything[:, :, :-1]], dim=2)


class TestCacheAndPadding:
    def test_cache_off_by_one(self) -> None:
        model = tiny(positions="rotary")
        mixer = mixer_of(model, 1)
        inner = mixer.forward

        def forward(x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: Any) -> Tensor:
            return inner(x_BTD, context, positions, None if cache is None else _Shifted(cache))

        mixer.forward = forward
        report = check_model(model)
        assert laws(report) == ["cache"]
        assert report.findings[0].where == "blocks.1.attention.mixer"
        assert report.findings[0].from_position == 1

    def test_cache_wrong_only_when_the_context_is_full(self) -> None:
        model = tiny()
        mixer = mixer_of(model, 0)
        inner = mixer.forward

        def forward(x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: Any) -> Tensor:
            z_BHTE = inner(x_BTD, context, positions, cache)
            full = (
                cache is not None and context.position_ids_BT is not None and int(context.position_ids_BT.max()) == CONTEXT - 1
            )
            return 1.001 * z_BHTE if full else z_BHTE

        mixer.forward = forward
        finding = check_model(model).findings[0]
        assert (finding.law, finding.to_position, finding.where) == ("cache", CONTEXT - 1, "blocks.0.attention.mixer")

    def test_positions_of_a_short_row_counted_as_if_padded(self) -> None:
        model = tiny()
        inner = model.forward

        def forward(ids_BT: Tensor, *, position_ids_BT: Tensor | None = None, **others: Any) -> Tensor:
            return inner(
                ids_BT,
                position_ids_BT=None
                if position_ids_BT is None
                else position_ids_BT.amax(0, keepdim=True).expand_as(position_ids_BT),
                **others,
            )

        model.forward = forward  # type: ignore[assignment,method-assign]
        report = check_model(model)
        assert laws(report) == ["cache"]
        assert report.findings[0].example["row"] == 1

    def test_mask_that_hides_nothing_from_one_layer(self) -> None:
        model = tiny(causal=False)
        mixer = mixer_of(model, 1)
        inner = mixer.forward

        def forward(x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: Any) -> Tensor:
            return inner(x_BTD, AttentionContext(causal=context.causal), positions, cache)

        mixer.forward = forward
        report = check_model(model)
        assert laws(report) == ["padding"]
        assert report.findings[0].where == "blocks.1.attention.mixer"

    def test_causal_mask_lost_when_a_mask_is_given(self) -> None:
        model = tiny()
        mixer = mixer_of(model, 0)
        inner = mixer.forward

        def forward(x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: Any) -> Tensor:
            causal = context.causal and context.key_padding_mask_BS is None
            return inner(
                x_BTD,
                AttentionContext(
                    causal=causal, position_ids_BT=context.position_ids_BT, key_padding_mask_BS=context.key_padding_mask_BS
                ),
                positions,
                cache,
            )

        mixer.forward = forward
        finding = check_model(model).findings[0]
        assert (finding.law, finding.example["path"]) == ("causality", "with a mask that hides nothing")


class TestOtherTargets:
    def test_plain_function_that_keeps_the_law_and_one_that_does_not(self) -> None:
        table = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))

        def honest(ids_BT: Tensor) -> Tensor:
            return table[ids_BT].cumsum(1)

        def leaky(ids_BT: Tensor) -> Tensor:
            return table[ids_BT].cumsum(1) + 1e-6 * table[ids_BT].mean(1, keepdim=True)

        assert check_model(honest, vocabulary=7, context=17).passed
        finding = check_model(leaky, vocabulary=7, context=17).findings[0]
        assert (finding.law, finding.where) == ("causality", "leaky")

    def test_sizes_of_a_function_are_found_by_trying(self) -> None:
        table, places = torch.randn(7, 7), torch.randn(19, 7)

        def function(ids_BT: Tensor) -> Tensor:
            return (table[ids_BT] + places[torch.arange(ids_BT.shape[1])]).cumsum(1)

        report = check_model(function)
        assert report.passed
        assert "up to 19" in report.tested["causality"]

    def test_causal_sum_by_subtraction_is_rounding_and_no_leak(self) -> None:
        """total - later sums: every place depends on later tokens by a few roundings, in float64 and in float32."""
        table = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))

        def by_subtraction(ids_BT: Tensor) -> Tensor:
            x = table[ids_BT]
            later = x.flip(1).cumsum(1).flip(1) - x
            return x.sum(1, keepdim=True) - later

        def by_fourier(ids_BT: Tensor) -> Tensor:
            x, length = table[ids_BT], ids_BT.shape[1]
            kernel = 0.9 ** torch.arange(length, dtype=torch.float32)
            spectrum = torch.fft.rfft(x, n=2 * length, dim=1) * torch.fft.rfft(kernel, n=2 * length)[:, None]
            return torch.fft.irfft(spectrum, n=2 * length, dim=1)[:, :length]

        for function in (by_subtraction, by_fourier):
            ids_BT = torch.randint(7, (1, 33))
            changed_BT = ids_BT.clone()
            changed_BT[:, 20:] = (changed_BT[:, 20:] + 1) % 7
            assert (function(ids_BT) - function(changed_BT))[:, :20].abs().max() > 0  # the rounding is really there
            assert check_model(function, vocabulary=7, context=33).passed

    def test_recurrent_module_passes_and_a_bidirectional_one_does_not(self) -> None:
        class Recurrent(nn.Module):
            def __init__(self, *, bidirectional: bool) -> None:
                super().__init__()
                self.embedding = nn.Embedding(9, 6)
                self.lstm = nn.LSTM(6, 5, batch_first=True, bidirectional=bidirectional)

            def forward(self, ids_BT: Tensor) -> Tensor:
                return self.lstm(self.embedding(ids_BT))[0]

        assert check_model(Recurrent(bidirectional=False), vocabulary=9, context=12).passed
        finding = check_model(Recurrent(bidirectional=True), vocabulary=9, context=12).findings[0]
        assert (finding.law, finding.where) == ("causality", "lstm")

    def test_modules_in_a_closure_are_looked_into(self) -> None:
        model = leaking(tiny(), 1, 1e-6)

        def function(ids_BT: Tensor) -> Tensor:
            return model(ids_BT)

        finding = check_model(function, vocabulary=VOCABULARY, context=CONTEXT).findings[0]
        assert finding.where == "model.blocks.1.attention.mixer"

    def test_what_cannot_be_checked_is_said_in_a_sentence(self) -> None:
        with refused(UsageError, "not-checkable"):
            check_model(3)  # type: ignore[arg-type]
        with refused(UsageError, "no-scores"):
            check_model(lambda ids_BT: "scores", vocabulary=5, context=5)


def test_require_raises_the_sentences_of_all_findings() -> None:
    with pytest.raises(CheckFailed, match=r"leak from the future.*leak from other rows"):
        check_model(tiny(merge="reweight")).require()
    check_model(tiny()).require()
