"""A study -> notes beside its table: train/validation overlap, early stopping, tuning, differing machines. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.evaluation.results import saved_evaluation
from glassformer.foundation.config import diff
from glassformer.foundation.errors import RunError
from glassformer.foundation.plugins import plugin_checksums
from glassformer.study.planning.conditions import FACTS, Condition, cost_conditions, known_text, time_condition
from glassformer.study.planning.plan import BASE, VALIDATION_SPLIT
from glassformer.study.planning.variant_facts import differences
from glassformer.study.running.trial_store import MACHINE
from glassformer.study.statistics.selection_variance import grid_edges

if TYPE_CHECKING:
    from glassformer.study.study import Study

OVERLAP = "also occur in train"
"""Identifies a note about documents that also occur in the training text."""
EARLY = "These verdicts are about the beginning of training"
"""Identifies the note about runs that have hardly learned: it stands above the verdicts."""
FEW_TUNING_SEEDS = 4
"""With fewer tuning seeds, the chosen setting is mostly noise."""


def notes_of(study: Study) -> list[str]:
    """All notes, without duplicates."""
    book, plan, notes = study.book.variants, study.plan, []
    if plan.confirms is not None:
        for one in study.verdicts:
            word = "confirmed" if one.verdict == "better" else f"not confirmed ({one.verdict})"
            notes.append(f"{one.variant} of {plan.confirms} is {word}, on new seeds and on the {plan.split} text.")
    notes += [note for facts in book.values() for note in facts.notes]
    notes += [f"{name}: {facts.leak}" for name, facts in book.items() if facts.leak is not None]
    notes += study.values.notes
    if plan.tune is not None and plan.tune.seeds < FEW_TUNING_SEEDS:
        seeds = "1 seed" if plan.tune.seeds == 1 else f"{plan.tune.seeds} seeds"
        notes.append(
            f"Tuned on {seeds} only: the choice is mostly noise, which widens the intervals; use {FEW_TUNING_SEEDS} or more "
            "(--tune-seeds)."
        )
    return list(dict.fromkeys(notes))


def conditions_of(study: Study, variant: str) -> list[Condition]:
    """What else differs between a change and the baseline."""
    book = study.book.variants
    found = list(study.values.variants[variant].conditions)
    if BASE in book and variant in book:
        found += differences(book[BASE], book[variant], study.plan.own_settings(variant))
    return [*found, *_tuning_edges(study, variant), *cost_conditions(study.costs(BASE), study.costs(variant))]


def measured_of_trials(study: Study, variant: str) -> dict[str, float]:
    """What its runs really took: ``memory_bytes`` of a step, ``flops_growth`` (FLOPs of later steps in those of the second),
    ``learned_outside`` its parameters; without what is not known. One run that takes more counts."""
    done = study.finished(variant)
    values: dict[str, list[Any]] = {
        "memory_bytes": [one.logged.get("peak_bytes") for one in done],
        "flops_growth": [one.logged.get("flops_growth") for one in done],
        "learned_outside": [one.environment.get(FACTS, {}).get("learned_outside") for one in done],
    }
    return {key: float(max(known)) for key, every in values.items() if (known := [one for one in every if one])}


def mean_logged(study: Study, variant: str, key: str) -> float | None:
    """The mean over the finished runs of a variant; None where none has logged it."""
    found = [one.logged[key] for one in study.finished(variant) if one.logged.get(key)]
    return float(np.mean(found)) if found else None


def _tuning_edges(study: Study, variant: str) -> list[Condition]:
    """The baseline's or the change's own tuned numbers that are the largest or smallest tried; and a grid of its own."""
    found = []
    grid = next((one.tune for one in study.plan.changes if one.name == variant and one.tune), None)
    if grid is not None and study.plan.tune is not None and grid != study.plan.tune.grid:
        found.append(Condition("tuning", f"a grid of its own ({', '.join(grid)})"))
    for name, whose in ((BASE, "the baseline's"), (variant, "its")):
        tuned, points = study.book.variants[name].tuned if name in study.book.variants else {}, study.plan.tuning_points(name)
        if tuned in points:
            for key in grid_edges(points, points.index(tuned)):
                found.append(Condition("tuning", f"{whose} {key}={tuned[key]} at the edge of the grid"))
    return found


def conditions_of_trials(study: Study, variant: str) -> tuple[Condition, ...]:
    """Those that need the trials' folders: time; precision and form of the step, where the change does not set them."""
    both = (BASE, variant)
    theirs, own = (_computed_by(study, name) for name in both)
    named = {
        "precision": ("training.precision", f"{own.get('precision')} instead of {theirs.get('precision')} arithmetic"),
        "step form": ("training.compile", f"a {own.get('step form')} instead of a {theirs.get('step form')} step"),
    }
    sets = study.plan.own_settings(variant)
    differing = [what for what in named if own and theirs and own[what] != theirs[what]]
    found = [Condition(what, named[what][1]) for what in differing if named[what][0] not in sets]
    if [any(one.logged.get("moved") for one in study.finished(name)) for name in both] == [False, True]:
        found.append(Condition("weights", "weights that its network or its loss changes beside the optimizer"))
    found += known_text(_known(study, BASE), _known(study, variant))
    before = [_pretraining_note(study, name).removeprefix(" after ") for name in both]
    if before[0] != before[1]:
        found.append(Condition("parent", before[1] or "no parent"))
    if _in_turn(study, variant):
        found += time_condition(_seconds(study, BASE), _seconds(study, variant))
    return tuple(found)


def _in_turn(study: Study, variant: str) -> bool:
    """Whether runs of the baseline and of a variant were trained in the same hours: those of a study are, by seed, but stored
    ones may be from a day on which the machine had more or less else to do."""
    files = [[one.run.metrics_file for one in study.finished(name)] for name in (BASE, variant)]
    theirs, own = ([file.stat().st_mtime for file in some if file.is_file()] for some in files)
    return bool(theirs and own) and max(min(theirs), min(own)) <= min(max(theirs), max(own))


def _known(study: Study, variant: str) -> Mapping[str, Mapping[str, float]]:
    """The losses on judged and trained text that the first seed of a variant recorded."""
    every = (one.environment.get(FACTS, {}).get("text_known") for one in study.finished(variant))
    return next((one for one in every if one), {})


def _seconds(study: Study, variant: str) -> list[float]:
    """Of each finished run, without start-up."""
    logs = [one.logged for one in study.finished(variant)]
    return [one["tokens"] / one["tokens_per_second"] for one in logs if one.get("tokens") and one.get("tokens_per_second")]


def _computed_by(study: Study, variant: str) -> dict[str, str]:
    """Arithmetic and form of the step of a variant's runs; empty where nothing has run."""
    seen: dict[str, dict[str, None]] = {"precision": {}, "step form": {}}
    for one in study.finished(variant):
        form = one.environment.get("step_form") or {}
        words = [word for word in ("compiled", "captured") if form.get(word)] or ["plain"]
        seen["precision"][str(one.environment.get("precision"))] = None
        seen["step form"][" and ".join(words)] = None
    return {what: " or ".join(sorted(values)) for what, values in seen.items()} if all(seen.values()) else {}


def notes_of_trials(study: Study) -> list[str]:
    """The notes that need the trials' folders."""
    reasons = [f"{one.trial.label}: {one.reason}" for rows in study.results.values() for one in rows if one.reason]
    others = [
        *_not_above_bigram(study),
        *data_notes(study),
        *early_ends(study),
        *_ignoring_the_source(study),
        *_environment_differences(study),
    ]
    return [*_token_differences(study), *_own_evaluations(study), *reasons, *others]


def _own_evaluations(study: Study) -> list[str]:
    """What a variant's own evaluator says, where the baseline's judged it."""
    notes, metric = [], study.metric
    for name, facts in study.book.variants.items():
        if not facts.judge:
            continue
        own = []
        for one in study.finished(name):
            with suppress(RunError):
                found = saved_evaluation(one.run, study.plan.split, one.step) if one.step is not None else None
                own += [found.metrics[metric.name].value] if found is not None and metric.name in found.metrics else []
        values = [value for value in own if value is not None]
        said = (
            f"its own evaluator says {metric.name} {np.mean(values):.4g}" if values else "its own evaluator does not measure it"
        )
        notes.append(f"{name} has another evaluator than the baseline, which judges all variants here; {said}.")
    return notes


def _token_differences(study: Study) -> list[str]:
    """Variants trained on another number of tokens than the baseline, or started from another parent."""
    book = study.book.variants
    own = {name: f"{facts.tokens:,} tokens{_pretraining_note(study, name)}" for name, facts in book.items()}
    return [
        f"{name} is trained on {amount} and the baseline on {own[BASE]}."
        for name, amount in own.items()
        if BASE in own and amount != own[BASE] and book[name].tokens  # none: it could not be built
    ]


def _pretraining_note(study: Study, variant: str) -> str:
    """How long the parents of a variant were trained, from the record of its first finished trial."""
    done = study.finished(variant) if variant in study.results else []
    if not done:
        return " (not counting the training of its parent)" if study.plan.settings(variant).get("init_from") else ""
    ancestry = done[0].environment.get("ancestry", [])
    if not ancestry:
        return ""
    who = "a parent" if len(ancestry) == 1 else f"{len(ancestry)} parents in sequence"
    tokens = [one["tokens"] for one in ancestry]
    if None in tokens:  # the parent came from elsewhere
        return f" after {who} trained for {sum(one['step'] for one in ancestry):,} steps"
    return f" after {who} trained on {sum(tokens):,} tokens"


def remarks_of_trials(study: Study) -> tuple[str, ...]:
    """Caveats for every verdict that need the trials' folders: train/evaluation overlap, and runs of different lengths."""
    remarks = []
    for note in data_notes(study):
        other_split = study.plan.split != VALIDATION_SPLIT and f" of {VALIDATION_SPLIT} " in note  # not that of the verdicts
        if OVERLAP in note and not other_split:
            remarks.append(f"{note.partition(', for example')[0]}: figures on it are too optimistic.")
    if early_ends(study):
        remarks.append("Runs stopped at different steps (patience), so their costs differ; the table shows the actual costs.")
    return tuple(remarks)


def data_notes(study: Study) -> list[str]:
    """The trials' notes about their data: duplicate and overlapping documents, unknown tokens."""
    firsts = [one for name in study.plan.variants for one in study.finished(name)[:1]]
    return list(dict.fromkeys(note for one in firsts for note in one.environment.get("data", {}).get("notes", [])))


def steps_of(study: Study, variant: str) -> list[int]:
    """The step each finished run of a variant ended at."""
    return [one.step for one in study.finished(variant) if one.step is not None]


def share_spent(study: Study, variant: str) -> float:
    """The mean fraction of the planned steps that a variant's runs took: 1 without early stopping."""
    facts, steps = study.book.variants.get(variant), steps_of(study, variant)
    return float(np.mean(steps)) / facts.steps if facts and facts.steps and steps else 1.0


def early_ends(study: Study) -> list[str]:
    """One sentence where runs ended before the planned step."""
    parts = []
    for name in study.plan.variants:
        facts, steps = study.book.variants.get(name), steps_of(study, name)
        if facts and steps and min(steps) < facts.steps:
            parts.append(f"{name} at {min(steps):,} to {max(steps):,} of {facts.steps:,}")
    if not parts:
        return []
    return [
        f"Runs stopped early (patience): {'; '.join(parts)} steps. The table shows the FLOPs and seconds they actually took. "
        "Early stopping used the text on which they are compared."
    ]


def _not_above_bigram(study: Study) -> list[str]:
    below, metric = [], study.metric.name
    for name in study.plan.variants:
        pairs = []
        for one in study.finished(name):
            bigram = one.evaluation.baselines.get("bigram", {}).get(metric) if one.evaluation else None
            own = one.evaluation.metrics.get(metric) if one.evaluation else None
            if bigram is not None and own is not None and bigram.value is not None and own.value is not None:
                pairs.append((own.value, bigram.value))
        if pairs and not study.metric.better(float(np.mean([own - bigram for own, bigram in pairs]))):
            below.append(name)
    if not below:
        return []
    names, several = ", ".join(below), len(below) > 1
    if BASE in below:
        are = "are" if several else "is"
        return [
            f"{EARLY}: {names} {are} not better than the bigram baseline yet. Raise training.steps to see what holds later."
        ]
    have = "They have" if several else "It has"
    return [
        f"Not better than the bigram baseline: {names}. {have} learned too little, or cannot learn more than a bigram knows."
    ]


def _ignoring_the_source(study: Study) -> list[str]:
    """Variants that translate without reading: their figures are those of a language model of the targets."""
    found = []
    for name in study.plan.variants:
        told = [one.evaluation.details.get("ignores_source") for one in study.finished(name) if one.evaluation]
        if any(told):
            found.append(f"{name} ignores its source in {sum(map(bool, told))} of {len(told)} runs.")
    return found


def _environment_differences(study: Study) -> list[str]:
    """A note if trials differ in build, machine or plugins, and so not by seed alone."""
    first: tuple[str, dict[str, Any]] | None = None
    for one in (one for name in study.plan.variants for one in study.finished(name)):
        plugins = ", ".join(digest[:8] for digest in plugin_checksums(one.environment.get("plugins", ())))
        own = {**{key: one.environment.get(key) for key in MACHINE}, "the code of plugins": plugins}
        label, theirs = first = first or (one.trial.label, own)
        for key, (was, now) in diff(theirs, own).items():
            return [
                f"The trials ran in different environments: {key} is {was!r} for {label} and {now!r} for {one.trial.label}."
            ]
    return []
