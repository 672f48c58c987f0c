"""``check_model``: a model, a function or a folder -> which laws hold, and which module breaks one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checks.check_report import CheckReport, Finding, Law, LawResults, short_error
from glassformer.checks.forward_passes import Passes, Setting, differing, same_generators
from glassformer.checks.huggingface_subject import huggingface_subject, is_huggingface, load_folder
from glassformer.checks.laws import Coverage, cache_fault, future_leak, padding_leak, row_leak, state_between_calls
from glassformer.checks.state_snapshot import Snapshot
from glassformer.checks.subject import Probes, Subject, callable_subject, device_of, is_network, our_subject
from glassformer.foundation.errors import ConfigError, UsageError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime
from glassformer.model.own_network import OwnNetwork

IGNORES_SOURCE = "It ignores its source: no score of the target changes with it."
"""Said, and no broken law: a part that starts at zero may open later."""
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
    (next-token prediction requires "causality" of an encoder, too); "padding" and "cache" need not be judged where ``laws`` are
    given without them. ``quick=False`` tests every cut of the full context
    instead of a sample.

    Laws are judged independently: an exception in one is "cannot tell" for that one only.
    """
    started = time.perf_counter()
    if causal is None:
        causal = bool(target.dims.causal) if is_network(target) else True  # type: ignore[union-attr]
    must_be_causal = "causality" in (laws or ()) or causal
    if isinstance(target, str | Path):
        target = load_folder(Path(target))
    snapshot = Snapshot(target)
    with same_generators(device_of([target] if isinstance(target, nn.Module) else [])), torch.inference_mode(False):
        try:
            subject = subject_of(target, vocabulary=vocabulary, context=context, snapshot=snapshot)
        finally:
            snapshot.restore()
    around: Callable[[], AbstractContextManager[Any]] = nullcontext if runtime is None else runtime.autocast
    precision = "float32" if runtime is None else runtime.precision
    results = LawResults()
    parts = (subject,) if subject.inside is None else (subject.inside, subject)
    needless = frozenset[Law]() if laws is None else frozenset[Law]({"padding", "cache"} - laws)  # type: ignore[arg-type]
    if "padding" in needless and isinstance(target, OwnNetwork):
        for part in parts:
            part.paddings = {}
    for number, part in enumerate(parts):
        part.snapshot = snapshot

        def progress(share: float, done: int = number) -> None:
            watch.progress("checks", round(100 * (done + share) / len(parts)), 100)

        passes = Passes(part, around=around, trained_precision=precision, seed=seed)
        with passes.undisturbed():
            probes, padded = Probes(part, seed=seed, quick=quick), "padding" in (laws or ())
            found = _test_laws(passes, probes, causal=must_be_causal, padded=padded, progress=progress)
            results.add(found, "through the head" if number else "")
        if results.findings:
            break
    if subject.source is not None and not results.findings:
        subject.source.snapshot = snapshot
        passes = Passes(subject.source, around=around, trained_precision=precision, seed=seed)
        with passes.undisturbed():
            results.add(_test_source(passes, Probes(subject.source, seed=seed, quick=quick)), "of the source")
    if not results.findings:
        for law in needless & results.cannot_tell.keys():
            results.not_judged[law] = f"this objective does not need it; trying it ended with {results.cannot_tell.pop(law)}"
    return results.report(subject.name, time.perf_counter() - started)


def _test_source(passes: Passes, probes: Probes) -> LawResults:
    """Rows, state and padding of the sources; and a note where no target depends on them."""
    results = _test_laws(passes, probes, causal=False, padded=True, progress=lambda share: None)
    results.not_judged.clear()  # the report says it of the target
    if results.findings or results.cannot_tell:
        return results
    ids_BS = probes.rows(2, min(8, passes.subject.context))
    one, other = (passes.scores(Setting(), ids) for ids in (ids_BS, probes.others(ids_BS)))
    if not differing(one, other).any():
        results.note([IGNORES_SOURCE])
    return results


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
    raise UsageError(
        f"{target!r} cannot be checked: give a model, a function from token ids to scores, or a model's folder.",
        reason="not-checkable",
    )


def _test_laws(passes: Passes, probes: Probes, *, causal: bool, padded: bool, progress: Callable[[float], None]) -> LawResults:
    """Tests the laws in turn. Padding and cache presume the laws before them, so they are skipped if one of those is broken."""
    results, subject, coverage = LawResults(), passes.subject, Coverage()
    tests: dict[Law, tuple[Callable[[], Finding | None], Callable[[], str]]] = {}
    """Of each law that applies: the test, and in words how it was tested."""
    if causal:
        tests["causality"] = (lambda: future_leak(passes, probes, coverage)), lambda: str(coverage)
    else:
        results.not_judged["causality"] = "this model may see every token"
    tests["batch"] = (lambda: row_leak(passes, probes)), lambda: "other rows changed, their gradients, the row alone"
    tests["state"] = (lambda: state_between_calls(passes, probes)), lambda: "a pass before and after another"
    if subject.paddings:
        tests["padding"] = (lambda: padding_leak(passes, probes)), lambda: f"hidden: {', '.join(subject.paddings)}"
    elif padded:
        results.cannot_tell["padding"] = "rows are padded, and this network takes no key_padding_mask"
    else:
        results.not_judged["padding"] = "this function takes no mask, or nothing is padded here"
    if subject.new_cache is not None and causal:
        chunks = f"in pieces, one row and several, up to {subject.context} tokens"
        tests["cache"] = (lambda: cache_fault(passes, probes)), lambda: chunks
    else:
        results.not_judged["cache"] = subject.no_cache
    try:
        results.note(passes.calibrate(probes.rows(2, min(8, subject.context))))
    except (UsageError, ConfigError):  # it names the mistake itself: scores of a wrong shape, say
        raise
    except Exception as error:  # a third-party model may raise anything
        for law in tests:
            results.cannot_tell[law] = f"it does not run on token ids alone: {short_error(error)}"
        return results
    for number, (law, (test, way)) in enumerate(tests.items()):
        progress(number / len(tests))
        broken = [finding.law for finding in results.findings if finding.law != "padding"]
        if law in ("padding", "cache") and broken:
            results.cannot_tell[law] = (
                f"not tested, because {' and '.join(broken)} {'is' if len(broken) == 1 else 'are'} broken"
            )
        else:
            results.judge(law, test, way, passes.why_unsure)
    progress(1.0)
    results.note(subject.remarks)
    return results
