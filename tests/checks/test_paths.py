"""A loss as training calls it: honest ones pass, leaks in the loss alone are found; fast paths are held to the plain one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.checks.planted import VOCABULARY, Small
from torch import Tensor

from glassformer.checks.paths import check_loss, check_same
from glassformer.model.losses import IGNORED, summed_cross_entropy

ROWS, LENGTH = 3, 7


def loss_of(model: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Tensor], Tensor | None], Tensor]:
    return lambda tensors, noise: summed_cross_entropy(model(tensors["ids"]), tensors["targets"])


def judged(loss: Callable[[dict[str, Tensor], Tensor | None], Tensor], **keywords: object) -> dict[str, str]:
    report = check_loss(loss, rows=ROWS, length=LENGTH, vocabulary=VOCABULARY, **keywords)  # type: ignore[arg-type]
    return dict(report.judged)  # type: ignore[arg-type]


def test_an_honest_loss_keeps_every_law() -> None:
    assert judged(loss_of(Small())) == {"causality": "passed", "batch": "passed", "labels": "passed"}


def test_leaks_of_the_loss_are_told_by_their_law() -> None:
    later = Small(lambda m, x, ids: x + 0.1 * x.mean(1, keepdim=True))
    assert judged(loss_of(later))["causality"] == "broken"
    assert judged(loss_of(later), laws=frozenset()) == {"batch": "passed", "labels": "passed"}
    rows = Small(lambda m, x, ids: x + 0.1 * x.roll(1, 0))
    assert judged(loss_of(rows)) == {"causality": "passed", "batch": "broken", "labels": "passed"}


def test_a_loss_whose_model_sees_the_target() -> None:
    model = Small()

    def cheating(tensors: dict[str, Tensor], noise: Tensor | None) -> Tensor:
        scores = model(tensors["ids"])
        targets = tensors["targets"]
        hint = torch.nn.functional.one_hot(targets.clamp(min=0), VOCABULARY) * (targets != IGNORED).unsqueeze(-1)
        return summed_cross_entropy(scores + 0.5 * hint, targets)

    assert judged(cheating)["labels"] == "broken"


def test_an_error_is_cannot_tell_and_loses_nothing_else() -> None:
    def failing(tensors: dict[str, Tensor], noise: Tensor | None) -> Tensor:
        raise RuntimeError("no room")

    report = check_loss(failing, rows=ROWS, length=LENGTH, vocabulary=VOCABULARY)
    assert set(report.cannot_tell) == {"causality", "batch", "labels"}


def test_fast_paths_are_held_to_the_plain_one() -> None:
    plain = {"loss": torch.tensor(2.0), "grad_norm": torch.tensor([3.0])}
    assert check_same(lambda: plain, lambda: {**plain, "loss": plain["loss"] + 1e-5}).passed
    report = check_same(lambda: plain, lambda: {**plain, "grad_norm": plain["grad_norm"] + 1e-2}, name="the recorded step")
    assert report.broken == {"path"}
    assert report.findings[0].where == "the recorded step"
    assert check_same(lambda: plain, lambda: {**plain, "grad_norm": plain["grad_norm"] + 1e-2}, precision="bfloat16").passed


@pytest.mark.slow
def test_a_loss_compiled_by_torch() -> None:
    honest, spoilt = Small(), Small(lambda m, x, ids: x + 0.1 * x.mean(1, keepdim=True))
    assert set(judged(torch.compile(loss_of(honest), dynamic=False)).values()) == {"passed"}
    assert judged(torch.compile(loss_of(spoilt), dynamic=False))["causality"] == "broken"
