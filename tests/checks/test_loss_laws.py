"""A loss as training calls it: honest ones pass, leaks in the loss alone are found; fast paths are held to the plain one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.checks.planted import VOCABULARY, Small
from torch import Tensor

from glassformer.checks.loss_laws import check_loss, check_same
from glassformer.model.losses import IGNORED, summed_cross_entropy

ROWS, LENGTH, CLASSES = 5, 7, 3
Tensors = dict[str, Tensor]
WINDOWS = torch.randint(VOCABULARY, (ROWS, LENGTH + 1), generator=torch.Generator().manual_seed(2))
TOKENS = {"ids": WINDOWS[:, :-1], "targets": WINDOWS[:, 1:]}  # views of one tensor, as on a GPU
HIDDEN = torch.arange(LENGTH).expand(ROWS, -1) >= torch.tensor([[7], [4], [6], [7], [2]])
LABELLED = {"ids": WINDOWS[:, :-1], "hidden": HIDDEN, "labels": torch.tensor([0, 1, 2, 0, 1])}


def loss_of(model: Callable[[Tensor], Tensor], smoothing: float = 0.0) -> Callable[[Tensors, Tensor | None], Tensor]:
    return lambda tensors, noise: summed_cross_entropy(model(tensors["ids"]), tensors["targets"], smoothing=smoothing)


def judged(loss: Callable[[Tensors, Tensor | None], Tensor], batch: Tensors = TOKENS, **keywords: object) -> dict[str, str]:
    return dict(check_loss(loss, batch, vocabulary=VOCABULARY, **keywords).judged)  # type: ignore[arg-type]


def test_an_honest_loss_keeps_every_law() -> None:
    honest = {"causality": "passed", "batch": "passed", "labels": "passed"}
    assert judged(loss_of(Small())) == honest
    assert judged(loss_of(Small(), smoothing=0.2), smoothing=0.2) == honest


def test_leaks_of_the_loss_are_told_by_their_law() -> None:
    later = Small(lambda m, x, ids: x + 0.1 * x.mean(1, keepdim=True))
    assert judged(loss_of(later))["causality"] == "broken"
    assert judged(loss_of(later), laws=frozenset()) == {"batch": "passed", "labels": "passed"}
    rows = Small(lambda m, x, ids: x + 0.1 * x.roll(1, 0))
    assert judged(loss_of(rows)) == {"causality": "passed", "batch": "broken", "labels": "passed"}


def test_the_row_and_the_place_of_a_leak() -> None:
    def change(m: Small, x: Tensor, ids: Tensor) -> Tensor:
        return torch.cat([x[:3], x[3:4] + x[3:4].mean(1, keepdim=True), x[4:]])

    report = check_loss(loss_of(Small(change)), TOKENS, vocabulary=VOCABULARY)
    (finding,) = report.findings
    assert finding.example["row"] == 3
    assert finding.from_position == finding.to_position + 1


def hint(tensors: Tensors, size: float, *, others: bool) -> Tensor:
    """What a model would add to its scores if it saw the targets: of the place itself, or of the place before."""
    targets = tensors["targets"].roll(1, 1) if others else tensors["targets"]
    return size * F.one_hot(targets.clamp(min=0), VOCABULARY) * (targets != IGNORED).unsqueeze(-1)


@pytest.mark.parametrize("others", [False, True])
def test_a_loss_whose_model_sees_targets(others: bool) -> None:
    model = Small()

    def cheating(tensors: Tensors, dropout_seed: Tensor | None) -> Tensor:
        return summed_cross_entropy(model(tensors["ids"]) + hint(tensors, 0.5, others=others), tensors["targets"])

    assert judged(cheating)["labels"] == "broken"


def encoder(weights: Callable[[Tensors], Tensor], *, told: float = 0.0) -> Callable[[Tensors, Tensor | None], Tensor]:
    """The loss of a classifier that adds up the vectors of each text; ``told``: how much of the label it is told."""
    table = 0.3 * torch.randn(VOCABULARY, CLASSES, generator=torch.Generator().manual_seed(1))

    def loss(tensors: Tensors, dropout_seed: Tensor | None) -> Tensor:
        scores_BC = (table[tensors["ids"]] * weights(tensors).unsqueeze(-1)).sum(1)
        scores_BC = scores_BC + told * F.one_hot(tensors["labels"].clamp(min=0), CLASSES)
        return F.cross_entropy(scores_BC, tensors["labels"], ignore_index=IGNORED, reduction="sum")

    return loss


def test_the_loss_of_an_encoder_rows_padding_labels() -> None:
    seen = encoder(lambda tensors: (~tensors["hidden"]).float())
    assert judged(seen, LABELLED, outputs=CLASSES) == {"batch": "passed", "padding": "passed", "labels": "passed"}
    padded = encoder(lambda tensors: torch.ones(tensors["ids"].shape))
    assert judged(padded, LABELLED, outputs=CLASSES)["padding"] == "broken"
    told = encoder(lambda tensors: (~tensors["hidden"]).float(), told=0.5)
    assert judged(told, LABELLED, outputs=CLASSES)["labels"] == "broken"


def test_an_error_is_cannot_tell_and_loses_nothing_else() -> None:
    def failing(tensors: Tensors, dropout_seed: Tensor | None) -> Tensor:
        raise RuntimeError("no room")

    report = check_loss(failing, TOKENS, vocabulary=VOCABULARY)
    assert set(report.cannot_tell) == {"causality", "batch", "labels"}
    not_a_number = check_loss(lambda tensors, noise: torch.tensor(torch.nan), TOKENS, vocabulary=VOCABULARY)
    assert set(not_a_number.cannot_tell) == {"causality", "batch", "labels"}
    strange = check_loss(failing, {"pictures": torch.zeros(2, 3)}, vocabulary=VOCABULARY)
    assert set(strange.cannot_tell) == {"batch", "labels"}


def test_every_call_has_the_strides_of_the_batch_and_leaves_the_generators_alone() -> None:
    seen: set[tuple[object, ...]] = set()

    def watching(tensors: Tensors, dropout_seed: Tensor | None) -> Tensor:
        seen.add(tuple((name, tensor.stride(), tensor.storage_offset()) for name, tensor in tensors.items()))
        return summed_cross_entropy(model(tensors["ids"]), tensors["targets"])

    model, before, state = Small(), WINDOWS.clone(), torch.get_rng_state()
    check_loss(watching, TOKENS, vocabulary=VOCABULARY)
    assert seen == {(("ids", (LENGTH + 1, 1), 0), ("targets", (LENGTH + 1, 1), 1))}
    assert torch.equal(WINDOWS, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_fast_paths_are_held_to_the_plain_one() -> None:
    plain = {"loss": torch.tensor(2.0), "grad_norm": torch.tensor([3.0])}
    off = {**plain, "grad_norm": plain["grad_norm"] + 1e-2}
    assert check_same(lambda: plain, lambda: {**plain, "loss": plain["loss"] + 1e-5}).passed
    report = check_same(lambda: plain, lambda: off, name="the recorded step")
    assert report.broken == {"path"}
    assert report.findings[0].where == "the recorded step"
    assert "the recorded step differs from the plain one: its grad_norm by 0.01" in report.findings[0].sentence
    assert check_same(lambda: plain, lambda: off, precision="bf16").passed
    assert check_same(lambda: plain, lambda: off, allowed=0.1).passed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_loss_compiled_by_torch() -> None:
    honest, spoilt = Small(), Small(lambda m, x, ids: x + 0.1 * x.mean(1, keepdim=True))
    assert set(judged(torch.compile(loss_of(honest), dynamic=False)).values()) == {"passed"}
    assert judged(torch.compile(loss_of(spoilt), dynamic=False))["causality"] == "broken"
