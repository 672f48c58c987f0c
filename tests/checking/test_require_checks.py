"""No number before the checks pass."""

from __future__ import annotations

import pytest
from tests.listener import Listener

from glassformer.checking.require_checks import raise_or_warn, require_checks, taint_of
from glassformer.checks.check_report import CheckReport, Finding
from glassformer.foundation.errors import CheckFailed
from glassformer.foundation.progress import SILENT
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer, build_model

SMALL = {"width": 12, "heads": 3, "layers": 1, "context": 7}


def model(merge: str) -> Transformer:
    return build_model(ModelConfig.parse({**SMALL, "merge": merge}), 11, seed=0)


def test_an_honest_model_passes_and_carries_no_taint() -> None:
    report = require_checks(model("concat"))
    assert report.passed
    assert taint_of(report) is None


def test_the_published_reweight_is_stopped_with_the_place() -> None:
    with pytest.raises(CheckFailed, match=r"blocks\.0\.attention\.merge"):
        require_checks(model("reweight"))


def test_allowed_leaks_are_said_and_tainted() -> None:
    listener = Listener()
    report = require_checks(model("reweight"), allow_leaks=True, watch=listener)
    taint = taint_of(report)
    assert taint is not None
    assert "causality" in taint
    assert listener.said
    assert listener.said[0].startswith("TAINTED")


def test_a_step_that_only_differs_is_refused_with_the_way_to_the_plain_one() -> None:
    other = Finding("path", "the captured step", 0, 0, 0.5, {"measured": "loss"})
    leak = Finding("causality", "the compiled loss", 3, 1, 0.5, {})
    with pytest.raises(CheckFailed, match=r"Train by the plain step with training\.compile=false and") as stopped:
        raise_or_warn(CheckReport("it", findings=(other,)), "Checks", False, SILENT)
    assert stopped.value.only_differs
    told = "the captured step of this run differs from the plain one; its figures are not those of the recipe."
    assert taint_of(CheckReport("it", findings=(other, other))) == told
    with pytest.raises(CheckFailed, match="No figure of such a model means anything") as stopped:
        raise_or_warn(CheckReport("it", findings=(leak, other)), "Checks", False, SILENT)
    assert not stopped.value.only_differs


def test_whoever_waits_sees_how_far_the_checks_are() -> None:
    shares: list[tuple[str, float, float]] = []

    class Counting(Listener):
        def progress(self, what: str, done: float, total: float, facts: object = None) -> None:
            shares.append((what, done, total))

    require_checks(model("concat"), watch=Counting())
    assert shares[0] == ("checks", 0, 100)
    assert shares[-1] == ("checks", 100, 100)
    assert [done for _, done, _ in shares] == sorted(done for _, done, _ in shares)
    assert len(shares) > 3
