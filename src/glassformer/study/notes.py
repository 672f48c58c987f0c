"""A study -> what must be known to read its table: text that overlaps, runs that ended early, unlike machines.

What a trial found out about its data, and what it really cost, belongs beside the verdict. Decides nothing; imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.foundation.config import diff
from glassformer.foundation.errors import RunError
from glassformer.foundation.plugins import plugin_sums
from glassformer.runs.directory import RunDirectory
from glassformer.study.plan import BASE
from glassformer.study.store import MACHINE

if TYPE_CHECKING:
    from glassformer.study.study import Study

OVERLAP = "also occur in train"
"""How a note about documents that stand in the training text too is told from others."""


def notes_of(study: Study) -> list[str]:
    """Every note, once."""
    book = study.book.variants
    notes = [*_confirmation(study), *(note for facts in book.values() for note in facts.notes)]
    for name, facts in book.items():
        if BASE in book and facts.tokens != book[BASE].tokens:
            notes.append(f"{name} is trained on {facts.tokens:,} tokens and the baseline on {book[BASE].tokens:,}.")
        if facts.leak is not None:
            notes.append(f"{name}: {facts.leak}")
    told = study.kept.notes if study.kept is not None else notes_of_trials(study)
    return list(dict.fromkeys([*notes, *told, *_few_tuning_seeds(study)]))


def notes_of_trials(study: Study) -> list[str]:
    """Those that only the trials' own folders can tell."""
    reasons = [f"{one.trial.label}: {one.reason}" for rows in study.results.values() for one in rows if one.reason]
    return [*reasons, *data_notes(study), *early_ends(study), *_below_bigram(study), *_unlike(study)]


def _confirmation(study: Study) -> list[str]:
    """What a confirmation is about, and whether it holds."""
    if study.plan.confirms is None:
        return []
    told = []
    for one in study.verdicts:
        word = "confirmed" if one.verdict == "better" else f"not confirmed ({one.verdict})"
        told.append(f"{one.variant} of {study.plan.confirms} is {word}, on fresh seeds and on the {study.plan.split} text.")
    return told


def remarks_of(study: Study) -> tuple[str, ...]:
    """What every sentence has to say: text that flatters, and runs of different lengths."""
    if study.kept is not None:
        return study.kept.remarks
    overlap = [note.partition(", for example")[0] for note in data_notes(study) if OVERLAP in note]
    told = [f"{note}: figures on it are flattered." for note in overlap]
    if early_ends(study):
        told.append("Runs ended at different steps (patience), so costs differ too; the table has what was really spent.")
    return tuple(told)


def data_notes(study: Study) -> list[str]:
    """What the trials found out about their text: repeated and overlapping documents, unknown tokens."""
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
    """The mean part of the planned steps that the runs of a variant took: 1 unless patience ended some."""
    if study.kept is not None:
        return study.kept.spent.get(variant, 1.0)
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
        "and the text that decided when to stop is the text they are compared on."
    ]


def _few_tuning_seeds(study: Study) -> list[str]:
    tune = study.plan.tune
    if tune is None or tune.seeds >= 4:
        return []
    return [f"Tuned on {tune.seeds} seeds only: the choice is mostly luck, which widens the intervals; 4 or more are better."]


def _below_bigram(study: Study) -> list[str]:
    notes, metric = [], study.metric.name
    for name in study.plan.variants:
        pairs = []
        for one in study.finished(name):
            bigram = one.evaluation.baselines.get("bigram", {}).get(metric) if one.evaluation else None
            own = one.evaluation.metrics.get(metric) if one.evaluation else None
            if bigram is not None and own is not None and bigram.value is not None and own.value is not None:
                pairs.append((own.value, bigram.value))
        if pairs and not study.metric.better(float(np.mean([own - bigram for own, bigram in pairs]))):
            notes.append(f"{name} is not better than a table of pairs of tokens (bigram): it has learned little.")
    return notes


def _unlike(study: Study) -> list[str]:
    """Trials made by other builds or on other machines do not differ by seed alone."""
    seen: dict[str, dict[str, Any]] = {}
    for rows in study.results.values():
        for one in rows:
            if one.status == "finished":
                environment = _environment(study, one.trial)
                sums = ", ".join(digest[:8] for digest in plugin_sums(environment.get("plugins", ())))
                seen[one.trial.label] = {**{key: environment.get(key) for key in MACHINE}, "the code of plugins": sums}
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
