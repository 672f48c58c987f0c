"""``compare_sets``: the same changes of several recipes -> a study on each set, and verdicts over all of them.

Sets whose results could not be combined are refused before the first run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.foundation.errors import ConfigError, UsageError
from glassformer.foundation.plugins import load_plugins
from glassformer.recipe import Source
from glassformer.study.compare import compare
from glassformer.study.planning.plan import StudyPlan, recipe_fingerprint
from glassformer.study.planning.plan_source import find_plan
from glassformer.study.set_study import SetStudy

PLANNED = (
    *("seeds", "first_seed", "looks", "max_seeds", "metric", "margin"),
    *("planned_effect", "match", "tune", "budget_hours", "allow_leaks"),
)
"""Arguments that are settings of the plan."""


def compare_sets(
    sources: Sequence[Source | StudyPlan],
    vary: Mapping[str, Sequence[Any]] | Sequence[str] | None = None,
    *,
    out: Path | str | None = None,
    **more: Any,
) -> SetStudy:
    """The same changes of several base recipes: a study on each, in a folder of its own, and verdicts over all of them."""
    if len(sources) < 2:
        raise UsageError("Several sets are two recipes or more; for one give it alone.")
    names = [_name(source, at) for at, source in enumerate(sources)]
    if len(set(names)) < len(names):
        names = [f"{name}-{at + 1}" for at, name in enumerate(names)]
    load_plugins(more.get("plugins", ()))
    _same_question(dict(zip(names, sources)), vary, more)
    folder = Path(out) if out is not None else Path("studies") / "-and-".join(names)
    SetStudy.begin(folder, names)
    studies = {name: compare(one, vary, out=folder / name, **more) for name, one in zip(names, sources)}
    found = SetStudy(folder, studies)
    found.write()
    return found


def _name(source: Source | StudyPlan, at: int) -> str:
    """The set's folder name: from the recipe's file or name, else a number."""
    base = source.get("base") if isinstance(source, Mapping) else source
    return Path(base).stem if isinstance(base, str | Path) else f"set-{at + 1}"


def _same_question(sources: Mapping[str, Source | StudyPlan], vary: Any, more: Mapping[str, Any]) -> None:
    """Raises if changes, metric or margin differ between sets, or if a set is given twice."""
    given = {key: value for key, value in more.items() if key in PLANNED and value is not None}
    plans: dict[str, tuple[StudyPlan, str]] = {}
    for name, source in sources.items():
        plan, resolve, _ = find_plan(source, vary, cross=more.get("cross", False), set=more.get("set") or {}, **given)
        plans[name] = plan, recipe_fingerprint(resolve(plan.set))
    (first, (plan, _)), *others = plans.items()
    for name, (other, _) in others:
        for what, own, its in (
            ("changes", [one.name for one in plan.changes], [one.name for one in other.changes]),
            ("metric", plan.judged.name, other.judged.name),
            ("margin", plan.same_within, other.same_within),
        ):
            if own != its:
                raise ConfigError(f"{what} must be the same on every set: {first} has {own}, and {name} has {its}.")
    for name, (_, recipe) in plans.items():
        twice = next((other for other, (_, its) in plans.items() if other != name and its == recipe), None)
        if twice is not None:
            raise ConfigError(f"{name} and {twice} are the same recipe on the same data, which is one set; give another one.")
