"""Requires that the checks pass: a model that breaks a law raises, or is marked as tainted if leaks are allowed."""

from __future__ import annotations

from torch import nn

from glassformer.checking.remembered_checks import cache_check, cached_check
from glassformer.checks.check import check_model
from glassformer.checks.check_report import CheckReport
from glassformer.foundation.errors import CheckFailed
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime

LEAKS = (
    "No figure of such a model means anything, so none is given. Change the part, or see what one would have believed with "
    "--allow-leaks, which marks every figure as tainted."
)
OTHER_NUMBERS = (
    "A run by it would not be the recipe's, so it is not started. Train by the plain step with training.compile=false and "
    "training.cuda_graph=false, or go on with --allow-leaks, which marks every figure as tainted."
)


def require_checks(
    model: nn.Module,
    *,
    laws: frozenset[str] = frozenset(),
    allow_leaks: bool = False,
    runtime: Runtime | None = None,
    key: str | None = None,
    watch: Watcher = SILENT,
) -> CheckReport:
    """Tests the laws on the actual model. Broken ones raise ``CheckFailed``, unless leaks are allowed.

    ``laws``: required by the objective, whatever the model states. ``key``: the cache key of the check; None: the checks
    always run.
    """
    if key is not None and (known := cached_check(key)) is not None:
        watch.say(f"Checks passed before: {known.notes[-1]} --recheck runs them again.")
        return known
    report = check_model(model, laws=laws, runtime=runtime, watch=watch)
    if key is not None:
        cache_check(key, report)
    raise_or_warn(report, "Checks", allow_leaks, watch)
    return report


def raise_or_warn(report: CheckReport, what: str, allow_leaks: bool, watch: Watcher) -> None:
    """Reports the result; raises on a broken law, unless leaks are allowed."""
    if not report.broken:
        watch.say(f"{what} {report.verdict} in {report.seconds:.1f} s: {', '.join(report.tested)}. {report.doubts}".rstrip())
        return
    if not allow_leaks:
        sentences = " ".join(finding.sentence for finding in report.findings)
        raise CheckFailed(f"{sentences} {OTHER_NUMBERS if report.only_differs else LEAKS}", only_differs=report.only_differs)
    watch.say(f"TAINTED: {taint_of(report)}")


def taint_of(report: CheckReport) -> str | None:
    """Why the figures of a model cannot be trusted, in one sentence; None when they can."""
    if not report.broken:  # a law that could not be judged is reported and recorded, but does not taint
        return None
    if report.only_differs:
        steps = " and ".join(dict.fromkeys(finding.where for finding in report.findings))
        return f"{steps} of this run differs from the plain one; its figures are not those of the recipe."
    laws = " and ".join(f"{finding.law} at {finding.where}" for finding in report.findings)
    return f"this model breaks {laws}; its figures mean nothing."
