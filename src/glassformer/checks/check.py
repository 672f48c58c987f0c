"""``check_model``: a model, a function or a folder -> which laws hold, and which module breaks one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checks.batch import row_leak
from glassformer.checks.cache import cache_fault
from glassformer.checks.calls import state_between_calls
from glassformer.checks.causality import Coverage, future_leak
from glassformer.checks.check_report import CheckReport, Finding, Law
from glassformer.checks.huggingface import huggingface_subject, is_huggingface, load_folder
from glassformer.checks.law_results import Verdicts, short_error
from glassformer.checks.padding import padding_leak
from glassformer.checks.passes import Passes, same_generators
from glassformer.checks.probes import Probes
from glassformer.checks.state import Snapshot
from glassformer.checks.subject import Subject, callable_subject, is_network, our_subject
from glassformer.foundation.errors import UsageError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime

Target = nn.Module | Callable[[Tensor], Any] | str | Path


def check_model(
    target: Target,
    *,
    causal: bool | None = None,
    vocabulary: int | None = None,
    context: int | None = None,
    runtime: Runtime | None = None,
    laws: frozenset[str] | None = None,
    quick: bool = True,
    seed: int = 0,
    watch: Watcher = SILENT,
) -> CheckReport:
    """Tests every law on ``target`` and returns a report; the target is left unchanged.

    ``target``: our Transformer, a module or function from token ids [B, T] to logits [B, T, V], a Hugging Face model or
    its folder. ``causal``: whether logits must not depend on later tokens (default: as our model states; otherwise true).
    ``vocabulary`` and ``context``: needed where the target does not state them and they cannot be found by trial.
    ``runtime``: device, precision and autocast of training. ``laws``: laws that must hold whatever the model states
    (next-token prediction requires "causality" of an encoder, too). ``quick=False`` tests every cut of the full context
    instead of a sample.

    Laws are judged independently: an exception in one is "cannot tell" for that one only.
    """
    started = time.perf_counter()
    must_be_causal = "causality" in (laws or ()) or (causal if causal is not None else _is_causal(target))
    if isinstance(target, str | Path):
        target = load_folder(Path(target))
    snapshot = Snapshot(target)
    device = Subject("", _nothing, {"": target} if isinstance(target, nn.Module) else {}, vocabulary=2, context=2).device
    with same_generators(device), torch.inference_mode(False):
        try:
            subject = subject_of(target, vocabulary=vocabulary, context=context, snapshot=snapshot)
        finally:
            snapshot.restore()
    around: Callable[[], AbstractContextManager[Any]] = nullcontext if runtime is None else runtime.autocast
    precision = "float32" if runtime is None else runtime.precision
    verdicts = Verdicts()
    parts = (subject,) if subject.inside is None else (subject.inside, subject)
    for number, part in enumerate(parts):
        part.snapshot = snapshot
        passes = Passes(part, around=around, trained_precision=precision, seed=seed)
        with passes.undisturbed():
            found = _laws(
                passes,
                Probes(part, seed=seed, quick=quick),
                causal=must_be_causal,
                tested=partial(_tell_progress, watch, number, len(parts)),
            )
        verdicts.add(found)
        if verdicts.findings:
            break
    return verdicts.report(subject.name, time.perf_counter() - started)


def _tell_progress(watch: Watcher, done: int, parts: int, share: float) -> None:
    """In per cent: ``done`` of ``parts`` are tested, and a share of the next one."""
    watch.progress("checks", round(100 * (done + share) / parts), 100)


def subject_of(
    target: Target, *, vocabulary: int | None = None, context: int | None = None, snapshot: Snapshot | None = None
) -> Subject:
    """The target behind the common interface ``Subject``."""
    if is_network(target):
        return our_subject(target)
    if is_huggingface(target):
        return huggingface_subject(target, vocabulary=vocabulary, context=context, snapshot=snapshot)
    if callable(target):
        return callable_subject(target, vocabulary=vocabulary, context=context, snapshot=snapshot)
    raise UsageError(f"{target!r} cannot be checked: give a model, a function from token ids to scores, or a model's folder.")


def _is_causal(target: Target) -> bool:
    return bool(target.dims.causal) if is_network(target) else True  # type: ignore[union-attr]


def _nothing(ids_BT: Tensor) -> Tensor:
    raise NotImplementedError


def _laws(passes: Passes, probes: Probes, *, causal: bool, tested: Callable[[float], None]) -> Verdicts:
    """Tests the laws in turn. Padding and cache presume the laws before them, so they are skipped if one of those is broken."""
    verdicts, subject, coverage = Verdicts(), passes.subject, Coverage(set())
    asked: dict[Law, Callable[[], Finding | None]] = {}
    if causal:
        asked["causality"] = lambda: future_leak(passes, probes, coverage)
    else:
        verdicts.does_not_apply("causality", "this model may see every token")
    asked["batch"] = lambda: row_leak(passes, probes)
    asked["state"] = lambda: state_between_calls(passes, probes)
    if subject.paddings:
        asked["padding"] = lambda: padding_leak(passes, probes)
    else:
        verdicts.does_not_apply("padding", "this function takes no mask")
    if subject.new_cache is not None and causal:
        asked["cache"] = lambda: cache_fault(passes, probes)
    else:
        verdicts.does_not_apply("cache", subject.no_cache)
    try:
        verdicts.note(passes.calibrate(probes.rows(2, min(8, subject.context))))
    except UsageError:
        raise
    except Exception as error:  # a third-party model may raise anything
        for law in asked:
            verdicts.cannot_tell(law, f"it does not run on token ids alone: {short_error(error)}")
        return verdicts
    ways: dict[Law, Callable[[], str]] = {
        "causality": lambda: str(coverage),
        "batch": lambda: "other rows changed, their gradients, the row alone",
        "state": lambda: "a pass before and after another",
        "padding": lambda: f"hidden: {', '.join(subject.paddings)}",
        "cache": lambda: f"in pieces, one row and several, up to {subject.context} tokens",
    }
    for number, (law, test) in enumerate(asked.items()):
        tested(number / len(asked))
        presumed = (
            [finding.law for finding in verdicts.findings if finding.law != "padding"] if law in ("padding", "cache") else []
        )
        if presumed:
            verdicts.cannot_tell(law, f"it presumes {' and '.join(presumed)}")
        else:
            verdicts.judge(law, test, ways[law], passes.why_unsure)
    tested(1.0)
    verdicts.note(subject.remarks)
    return verdicts
