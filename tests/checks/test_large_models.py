"""Large models: a long context and a vocabulary of thousands are checked at fewer places, and no planted fault gets through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.checks.check import check_model
from glassformer.checks.subject import Probes, our_subject
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer, build_model

CONTEXT, VOCABULARY, HEADS = 640, 2053, 3


def large(**changes: Any) -> Transformer:
    sizes = {"width": 12, "heads": HEADS, "layers": 2, "context": CONTEXT}
    return build_model(ModelConfig.parse({**sizes, **changes}), VOCABULARY, seed=1)


def leaking(model: Transformer, size: float, when: Callable[[Any, Tensor], bool]) -> Transformer:
    """Every place of the second layer's mixer gets a share of the next place's."""

    def hook(module: Any, inputs: Any, z_BHTE: Tensor) -> Tensor:
        return z_BHTE + size * z_BHTE.roll(-1, dims=2) if when(module, z_BHTE) else z_BHTE

    model.blocks[1].attention.mixer.register_forward_hook(hook)  # type: ignore[union-attr]
    return model


def is_full(z_BHTE: Tensor) -> bool:
    return z_BHTE.shape[2] == CONTEXT


class AfterHead(nn.Module):
    """A head whose scores are changed by a function of all of them."""

    def __init__(self, head: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.head, self.change = head, change

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.change(self.head(x_BTD))


def with_head(change: Callable[[Tensor], Tensor]) -> Transformer:
    model = large()
    model.head = AfterHead(model.head, change)
    return model


def test_these_models_are_large_and_their_vectors_are_checked_on_their_own() -> None:
    subject = our_subject(large())
    assert subject.inside is not None
    assert Probes(subject.inside).heavy
    assert Probes(subject).brief
    assert not Probes(subject, quick=False).brief


def test_an_honest_one_passes_with_every_law_tested_on_the_vectors_and_on_the_scores() -> None:
    report = check_model(large(dropout=0.1))
    assert report.passed, str(report)
    assert report.notes == ()
    assert set(report.tested) == {"causality", "batch", "state", "padding", "cache"}
    assert all("through the head" in how for how in report.tested.values())
    assert report.tested["causality"].count(f"up to {CONTEXT}") == 2


LEAKS: dict[str, tuple[float, Callable[[Any, Tensor], bool]]] = {
    "of a millionth": (1e-6, lambda module, z: True),
    "only in training mode": (1e-6, lambda module, z: module.training),
    "only in training mode and a full context": (1e-6, lambda module, z: module.training and is_full(z)),
    "only in the fused path": (1e-6, lambda module, z: module.takes_fast_path),
    "only in the fused path and a full context": (1e-6, lambda module, z: module.takes_fast_path and is_full(z)),
    "only in the reference implementation and a full context": (
        1e-3,
        lambda module, z: not module.takes_fast_path and is_full(z),
    ),
    "only in float32 and a full context": (0.1, lambda module, z: z.dtype == torch.float32 and is_full(z)),
}


SLOW = ("only in training mode", "only in the fused path", "of a millionth")
"""Faults that a harder one beside them includes."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in LEAKS])
def test_leak_is_found_and_placed(name: str) -> None:
    finding = check_model(leaking(large(), *LEAKS[name])).findings[0]
    assert (finding.law, finding.where) == ("causality", "blocks.1.attention.mixer")
    assert "changes the vectors before the head at" in finding.sentence


def test_leak_only_at_the_last_position_of_a_full_context() -> None:
    model = large()

    def hook(module: Any, inputs: Any, z_BHTE: Tensor) -> Tensor:
        if not is_full(z_BHTE):
            return z_BHTE
        last_BHE = inputs[0][:, -1].unflatten(-1, (HEADS, -1))
        return torch.cat([z_BHTE[:, :, :41], z_BHTE[:, :, 41:42] + 1e-6 * last_BHE.unsqueeze(2), z_BHTE[:, :, 42:]], dim=2)

    model.blocks[1].attention.mixer.register_forward_hook(hook)  # type: ignore[union-attr]
    finding = check_model(model).findings[0]
    assert (finding.law, finding.from_position, finding.to_position) == ("causality", CONTEXT - 1, 41)
    assert finding.where == "blocks.1.attention.mixer"


def test_leaks_between_rows_only_in_a_full_context() -> None:
    model = large()

    def hook(module: Any, inputs: Any, z_BHTE: Tensor) -> Tensor:
        return z_BHTE + 1e-6 * (z_BHTE.mean(0) - z_BHTE) if is_full(z_BHTE) else z_BHTE

    model.blocks[1].attention.mixer.register_forward_hook(hook)  # type: ignore[union-attr]
    finding = check_model(model).findings[0]
    assert (finding.law, finding.where) == ("batch", "blocks.1.attention.mixer")


class TestHeads:
    def test_head_that_sees_the_next_place(self) -> None:
        finding = check_model(with_head(lambda scores: scores + 1e-6 * scores.roll(-1, dims=1))).findings[0]
        assert (finding.law, finding.where) == ("causality", "head")
        assert "changes the scores at" in finding.sentence

    def test_head_that_sees_the_last_place_of_a_full_context_in_one_column(self) -> None:
        def change(scores_BTV: Tensor) -> Tensor:
            if scores_BTV.shape[1] < CONTEXT:
                return scores_BTV
            changed_BTV = scores_BTV.clone()
            changed_BTV[:, 5, 2022] += 1e-6 * scores_BTV[:, -1, 2022]
            return changed_BTV

        finding = check_model(with_head(change)).findings[0]
        assert (finding.law, finding.where) == ("causality", "head")
        assert (finding.from_position, finding.to_position) == (CONTEXT - 1, 5)

    def test_head_that_sees_other_rows(self) -> None:
        finding = check_model(with_head(lambda scores: scores - 1e-6 * scores.mean(0, keepdim=True))).findings[0]
        assert (finding.law, finding.where) == ("batch", "head")

    def test_head_that_counts_the_places(self) -> None:
        finding = check_model(with_head(lambda scores: scores / scores.shape[1])).findings[0]
        assert (finding.law, finding.example["found_by"]) == ("causality", "length")
