"""The check itself: a model, a function or a folder -> which laws hold, and where they break."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from glassformer.checks.batch import row_leak
from glassformer.checks.cache import cache_fault
from glassformer.checks.causality import Coverage, future_leak
from glassformer.checks.huggingface import huggingface_subject, is_huggingface, load_folder
from glassformer.checks.padding import padding_leak
from glassformer.checks.passes import Passes
from glassformer.checks.probes import Probes
from glassformer.checks.report import CheckReport, Finding, Law
from glassformer.checks.subject import Subject, callable_subject, is_network, our_subject
from glassformer.foundation.errors import UsageError
from glassformer.foundation.runtime import Runtime

Target = nn.Module | Callable[[Tensor], Any] | str | Path


def check_model(
    target: Target,
    *,
    causal: bool | None = None,
    vocabulary: int | None = None,
    context: int | None = None,
    runtime: Runtime | None = None,
    kernel: Callable[[Tensor], Tensor] | None = None,
    quick: bool = True,
    seed: int = 0,
) -> CheckReport:
    """Tests every law on ``target`` and says what it found; changes nothing about it.

    ``target``: our Transformer, a module or function from token ids [B, T] to scores [B, T, V], a Hugging Face model or
    its folder. ``causal``: whether scores must not see later tokens (a model of ours knows; everything else: yes).
    ``vocabulary`` and ``context``: needed where the target does not state them and they cannot be found by trying.
    ``runtime``: device, precision and autocast of training; ``kernel``: the forward pass of training where it is not the
    target's own (a compiled one). ``quick=False`` tries every cut of the full context instead of some.
    """
    started = time.perf_counter()
    subject = subject_of(target, vocabulary=vocabulary, context=context)
    must_be_causal = causal if causal is not None else _is_causal(target)
    around: Callable[[], AbstractContextManager[Any]] = nullcontext if runtime is None else runtime.autocast
    precision = "float32" if runtime is None else runtime.precision
    findings: list[Finding] = []
    tested: dict[Law, str] = {}
    not_judged: dict[Law, str] = {}
    notes: dict[str, None] = {}
    for part in (subject,) if subject.inside is None else (subject.inside, subject):
        own_kernel = kernel if part is subject else None
        passes = Passes(part, around=around, kernel=own_kernel, trained_precision=precision, seed=seed)
        probes = Probes(part, seed=seed, quick=quick)
        with passes.undisturbed():
            notes.update(dict.fromkeys(passes.calibrate(probes.rows(2, min(8, part.context)))))
            findings, ways, not_judged = _laws(passes, probes, causal=must_be_causal)
        for law, way in ways.items():
            tested[law] = f"{tested[law]}; through the head: {way}" if law in tested else way
        if findings:
            break
    seconds = time.perf_counter() - started
    return CheckReport(subject.name, tuple(findings), tested, not_judged, tuple(notes), seconds)


def subject_of(target: Target, *, vocabulary: int | None = None, context: int | None = None) -> Subject:
    """The target in the form the laws ask for."""
    if isinstance(target, str | Path):
        target = load_folder(Path(target))
    if is_network(target):
        return our_subject(target)
    if is_huggingface(target):
        return huggingface_subject(target, vocabulary=vocabulary, context=context)
    if callable(target):
        return callable_subject(target, vocabulary=vocabulary, context=context)
    raise UsageError(f"{target!r} cannot be checked: give a model, a function from token ids to scores, or a model's folder.")


def _is_causal(target: Target) -> bool:
    return bool(target.dims.causal) if is_network(target) else True  # type: ignore[union-attr]


def _laws(passes: Passes, probes: Probes, *, causal: bool) -> tuple[list[Finding], dict[Law, str], dict[Law, str]]:
    """Each law in turn. Padding and cache presume the laws before them, so a model that breaks those is not judged by these."""
    findings: list[Finding] = []
    tested: dict[Law, str] = {}
    not_judged: dict[Law, str] = {}
    subject = passes.subject

    def judge(law: Law, test: Callable[[], Finding | None], how: Callable[[], str]) -> None:
        found = test()
        tested[law] = how()
        findings.extend([] if found is None else [found])

    coverage = Coverage(set())
    if causal:
        judge("causality", lambda: future_leak(passes, probes, coverage), lambda: str(coverage))
    else:
        not_judged["causality"] = "this model may see every token"
    judge("batch", lambda: row_leak(passes, probes), lambda: "other rows changed, their gradients, the row alone")
    if findings:
        reason = f"it presumes {' and '.join(finding.law for finding in findings)}"
        return findings, tested, {**not_judged, "padding": reason, "cache": reason}
    if subject.paddings:
        judge("padding", lambda: padding_leak(passes, probes), lambda: f"hidden: {', '.join(subject.paddings)}")
    else:
        not_judged["padding"] = "this function takes no mask"
    if subject.new_cache is not None and causal:
        judge("cache", lambda: cache_fault(passes, probes), lambda: f"in pieces, up to {subject.context} tokens")
    else:
        not_judged["cache"] = "this model has no cache"
    return findings, tested, not_judged
