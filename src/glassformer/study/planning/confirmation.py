"""A finished study -> the plan of its confirmation: the winner again, on fresh seeds and held-out text.

The best of several changes is overestimated on the text it was selected on (winner's curse). A confirmation is planned before
its first run like any study, and a study has only one. Imports no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.foundation.config import value_at
from glassformer.foundation.errors import ConfigError, UsageError
from glassformer.runs.directory import RunDirectory
from glassformer.study.planning.plan import BASE, StudyPlan
from glassformer.study.statistics.verdict import Verdict
from glassformer.study.study import Study

UNSEEN_SPLIT = "test"
NOT_THERE = object()


def winner(study: Study) -> Verdict:
    """The better change with the largest difference; raises if there is none."""
    better = [one for one in study.verdicts if one.verdict == "better" and not one.exploratory]
    if not better:
        raise UsageError(f"{study.folder} found no change better, so there is nothing to confirm.", reason="nothing-to-confirm")
    return max(better, key=lambda one: abs(one.difference.value or 0.0))


def _settings_tuned_for_baseline(study: Study, name: str) -> dict[str, Any]:
    """Keys that the baseline tuned and this change did not, with the values the change was trained with."""
    theirs, own = (study.book.variants[one].adapted if one in study.book.variants else {} for one in (BASE, name))
    keys = [key for key in theirs if key not in own]
    done = study.finished(name) if keys else []
    if keys and not done:
        raise UsageError(
            f"{study.folder} no longer has a trial of {name}, so its {keys[0]} is unknown; restore trials/.",
            reason="no-trial-left",
        )
    recipe = RunDirectory(study.directory.trial(done[0].trial)).read_recipe() if done else {}
    held = {key: value_at(recipe, key, default=NOT_THERE) for key in keys}
    return {key: value for key, value in held.items() if value is not NOT_THERE}


def confirmation(study: Study) -> tuple[StudyPlan, Path]:
    """The plan, and the only folder it may be run in."""
    if study.plan.split != "validation":
        raise ConfigError(
            f"{study.folder} was itself judged on {study.plan.split}; a confirmation needs text that no study has used.",
            reason="split-seen-before",
        )
    name = winner(study).variant
    adapted = {variant: dict(facts.adapted) for variant, facts in study.book.variants.items()}
    own = next(change for change in study.plan.changes if change.name == name)
    values: dict[str, Any] = {
        **study.plan.to_dict(),
        "about": f"Confirms {name} of {study.folder}, once, on fresh seeds and on the {UNSEEN_SPLIT} text.",
        "set": {**study.plan.set, **adapted.get(BASE, {})},
        "changes": [{"name": name, "set": {**_settings_tuned_for_baseline(study, name), **own.set, **adapted.get(name, {})}}],
        "first_seed": max(*study.plan.seed_numbers, *study.plan.bank) + 1,
        "split": UNSEEN_SPLIT,
        "confirms": str(study.folder),
        "tune": None,
        "match": None,
        "design": "paired",
        "bank": [],
    }
    return StudyPlan.parse(values), study.folder.with_name(f"{study.folder.name}-confirmed")
