"""A study -> notes beside its table: train/validation overlap, early stopping, tuning, differing machines. Imports no torch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.foundation.config import diff
from glassformer.foundation.errors import RunError
from glassformer.foundation.plugins import plugin_checksums
from glassformer.runs.directory import RunDirectory
from glassformer.study.planning.plan import BASE, VALIDATION_SPLIT
from glassformer.study.running.trial_store import MACHINE

if TYPE_CHECKING:
    from glassformer.study.study import Study

OVERLAP = "also occur in train"
"""Identifies a note about documents that also occur in the training text."""


def notes_of(study: Study) -> list[str]:
    """All notes, without duplicates."""
    book = study.book.variants
    notes = [*_confirmation(study), *(note for facts in book.values() for note in facts.notes)]
    notes += [f"{name}: {facts.leak}" for name, facts in book.items() if facts.leak is not None]
    return list(dict.fromkeys([*notes, *study.values.notes, *_few_tuning_seeds(study), *_tuned_on_test_split(study)]))


def notes_of_trials(study: Study) -> list[str]:
    """The notes that need the trials' folders."""
    reasons = [f"{one.trial.label}: {one.reason}" for rows in study.results.values() for one in rows if one.reason]
    others = [*data_notes(study), *early_ends(study), *_not_above_bigram(study), *_environment_differences(study)]
    return [*_token_differences(study), *reasons, *others]


def _token_differences(study: Study) -> list[str]:
    """Variants trained on another number of tokens than the baseline, or started from another parent."""
    book = study.book.variants
    own = {name: f"{facts.tokens:,} tokens{_pretraining_note(study, name)}" for name, facts in book.items()}
    return [
        f"{name} is trained on {amount} and the baseline on {own[BASE]}."
        for name, amount in own.items()
        if BASE in own and amount != own[BASE]
    ]


def _pretraining_note(study: Study, variant: str) -> str:
    """How long the parents of a variant were trained, from the record of its first finished trial."""
    done = study.finished(variant) if variant in study.results else []
    if not done:
        return " (training before it not counted)" if study.plan.settings(variant).get("init_from") else ""
    folder = study.directory.trial(done[0].trial)
    ancestry = _environment(study, done[0].trial).get("ancestry", [])
    counts = [_tokens_of(one, RunDirectory(folder).parent if place == 0 else None) for place, one in enumerate(ancestry)]
    if not counts:
        return ""
    who = "a parent" if len(counts) == 1 else f"{len(counts)} parents, one after the other,"
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return f" after {who} trained for {sum(one.get('step', 0) for one in ancestry):,} steps"
    return f" after {who} trained on {sum(known):,} tokens"


def _tokens_of(ancestor: dict[str, Any], beside: Path | None) -> int | None:
    """How many tokens a parent was trained on: as recorded, or computed from its recipe if that still exists."""
    if ancestor.get("tokens") is not None:
        return int(ancestor["tokens"])
    for place in (beside, Path(str(ancestor.get("run")))):
        with suppress(RunError, KeyError, TypeError):
            if place is not None:
                recipe = RunDirectory(place).read_recipe()
                return int(ancestor["step"] * recipe["training"]["batch_size"] * recipe["model"]["context"])
    return None


def _confirmation(study: Study) -> list[str]:
    """Whether a confirmation study confirmed its change."""
    if study.plan.confirms is None:
        return []
    notes = []
    for one in study.verdicts:
        word = "confirmed" if one.verdict == "better" else f"not confirmed ({one.verdict})"
        notes.append(f"{one.variant} of {study.plan.confirms} is {word}, on fresh seeds and on the {study.plan.split} text.")
    return notes


def remarks_of_trials(study: Study) -> tuple[str, ...]:
    """Caveats for every verdict that need the trials' folders: train/evaluation overlap, and runs of different lengths."""
    overlap = [note.partition(", for example")[0] for note in data_notes(study) if OVERLAP in note and _judged_on(study, note)]
    remarks = [f"{note}: figures on it are too optimistic." for note in overlap]
    if early_ends(study):
        remarks.append("Runs ended at different steps (patience), so costs differ too; the table has what was really spent.")
    return tuple(remarks)


def _judged_on(study: Study, note: str) -> bool:
    """Whether a note may concern the split of the verdicts; one about validation does not, if they use another split."""
    return study.plan.split == VALIDATION_SPLIT or f" of {VALIDATION_SPLIT} " not in note


def data_notes(study: Study) -> list[str]:
    """The trials' notes about their data: duplicate and overlapping documents, unknown tokens."""
    found: list[str] = []
    for name in study.plan.variants:
        done = study.finished(name)
        if done:
            found += _environment(study, done[0].trial).get("data", {}).get("notes", [])
    return list(dict.fromkeys(found))


def steps_of(study: Study, variant: str) -> list[int]:
    """The step each finished run of a variant ended at."""
    return [one.evaluation.step for one in study.finished(variant) if one.evaluation and one.evaluation.step is not None]


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
        f"Runs ended early (patience), at different steps: {'; '.join(parts)}. FLOPs and seconds are what was really spent, "
        "and early stopping used the text they are compared on."
    ]


def _few_tuning_seeds(study: Study) -> list[str]:
    tune = study.plan.tune
    if tune is None or tune.seeds >= 4:
        return []
    seeds = "1 seed" if tune.seeds == 1 else f"{tune.seeds} seeds"
    return [f"Tuned on {seeds} only: the choice is mostly noise, which widens the intervals; 4 or more are better."]


def _tuned_on_test_split(study: Study) -> list[str]:
    """For studies of older versions, which tuned on the split of the verdicts."""
    notes = " ".join(note for facts in study.book.variants.values() for note in facts.notes)
    tuned = any(facts.tuned for facts in study.book.variants.values())
    if not tuned or study.plan.split == VALIDATION_SPLIT or f" on {VALIDATION_SPLIT})" in notes:
        return []
    return [f"Settings were chosen on the {study.plan.split} text itself, so figures on it are a little too optimistic."]


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
    return [f"Not better than the bigram baseline: {', '.join(below)}. Such short training says little; raise training.steps."]


def _environment_differences(study: Study) -> list[str]:
    """A note if trials differ in build, machine or plugins, and so not by seed alone."""
    seen: dict[str, dict[str, Any]] = {}
    for rows in study.results.values():
        for one in rows:
            if one.status == "finished":
                environment = _environment(study, one.trial)
                plugins = ", ".join(digest[:8] for digest in plugin_checksums(environment.get("plugins", ())))
                seen[one.trial.label] = {**{key: environment.get(key) for key in MACHINE}, "the code of plugins": plugins}
    first = next(iter(seen.items()), None)
    for label, environment in seen.items():
        differing = diff(first[1], environment) if first else {}
        if first and differing:
            key, (was, now) = next(iter(differing.items()))
            return [f"Not all trials were made alike: {key} is {was!r} for {first[0]} and {now!r} for {label}."]
    return []


def _environment(study: Study, trial: Any) -> dict[str, Any]:
    try:
        return RunDirectory(study.directory.trial(trial)).read_environment()
    except RunError:
        return {}
