"""Every planted fault is told by its law; what must be missed is missed; honest twins pass; nothing is left behind."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.checks.planted import CONTEXT, HONEST, PLANTED, VOCABULARY, Fault, Small
from tests.checks.planted_masked import MASKED, Decoder
from torch import nn

from glassformer.checks.check import check_model

SIZES = {"vocabulary": VOCABULARY, "context": CONTEXT}


def test_there_are_at_least_forty_of_every_law() -> None:
    assert len({fault.name for fault in (*PLANTED, *MASKED)}) >= 40
    assert {fault.law for fault in (*PLANTED, *MASKED)} == {"causality", "batch", "state", "padding", "cache"}


@pytest.mark.parametrize("fault", [*PLANTED, *MASKED], ids=lambda fault: fault.name.replace(" ", "_"))
def test_a_planted_fault_is_told_by_its_law(fault: Fault) -> None:
    target = fault.build()
    report = check_model(target)
    assert report.judged[fault.law] == fault.says, str(report)  # type: ignore[index]
    assert report.passed is (fault.says == "passed")
    for finding in report.findings:
        assert finding.size > 0


@pytest.mark.parametrize("name", HONEST)
def test_honest_twins_pass(name: str) -> None:
    report = check_model(HONEST[name]())
    assert report.passed, str(report)


def test_an_honest_decoder_with_mask_and_cache_passes() -> None:
    report = check_model(Decoder())
    assert report.passed, str(report)
    assert set(report.judged) == {"causality", "batch", "state", "padding", "cache"}


@pytest.mark.parametrize("name", [*HONEST, *(fault.name for fault in PLANTED if fault.law == "state")])
def test_a_check_changes_nothing(name: str) -> None:
    make = {**HONEST, **{fault.name: fault.build for fault in PLANTED}}[name]
    model = make()
    if not isinstance(model, nn.Module):
        return
    ids_BT = torch.randint(VOCABULARY, (2, 7), generator=torch.Generator().manual_seed(3))
    twin = copy.deepcopy(model)
    generator = torch.get_rng_state()
    check_model(model)
    assert torch.equal(torch.get_rng_state(), generator)
    assert vars(model).keys() == vars(twin).keys()
    assert [module.training for module in model.modules()] == [module.training for module in twin.modules()]
    torch.manual_seed(0)
    expected = twin(ids_BT)
    torch.manual_seed(0)
    after = model(ids_BT)
    assert after.dtype == expected.dtype
    assert torch.equal(after, expected)


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_a_check_inside_a_block_without_gradients(around: type) -> None:
    honest, spoilt = Small(), next(fault for fault in PLANTED if fault.name == "only with gradients on").build()
    with around():
        assert check_model(honest).passed
        assert check_model(spoilt).broken == {"causality"}


def test_the_laws_of_an_objective_hold_for_a_model_that_says_otherwise() -> None:
    seeing = Small(mask=lambda length: torch.ones(1, length, length, dtype=torch.bool))
    assert check_model(seeing, causal=False).passed
    assert check_model(seeing, causal=False, laws=frozenset({"causality"})).broken == {"causality"}


def test_an_error_in_one_law_loses_no_finding_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise RuntimeError("the probe broke\nwith a long story")

    monkeypatch.setattr("glassformer.checks.check.future_leak", fails)
    fault = next(fault for fault in PLANTED if fault.name == "the row before")
    report = check_model(fault.build())
    assert report.judged["causality"] == "cannot tell"
    assert report.cannot_tell["causality"] == "RuntimeError: the probe broke"
    assert report.broken == {"batch"}
