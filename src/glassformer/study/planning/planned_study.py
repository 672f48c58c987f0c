"""Whatever ``compare`` is given (a recipe with changes, a plan, a study's folder) -> planned studies, ready to run.

The only way to a plan, for the command line, Python and the local page. Reads files and names; runs nothing, writes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.reading.default_recipe import is_text
from glassformer.foundation.config import value_at
from glassformer.foundation.errors import ConfigError, UnknownName, UsageError
from glassformer.foundation.yaml_text import read_yaml
from glassformer.recipe import Recipe, Source, built_in_recipes, is_run, load_recipe, recipe_values, run_taken
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.plan import (
    BASE,
    Resolve,
    StudyPlan,
    built_in_studies,
    folder_name,
    parse_vary,
    recipe_fingerprint,
)
from glassformer.study.planning.variant_data import refuse_metric
from glassformer.study.statistics.trends import FEWEST_SIZES
from glassformer.study.statistics.verdict import Verdict
from glassformer.study.study import Study

MOST_CHANGES = 200  # more is a mistake: a product of too many values

Vary = Mapping[str, Sequence[Any]] | Sequence[str] | None
"""The values of each varied key, as a mapping or as ``key=a,b`` texts."""


@dataclass(frozen=True)
class PlannedStudy:
    """A validated plan with all that is needed to run it. ``notes``: sentences to print before."""

    plan: StudyPlan
    resolve: Resolve
    directory: StudyDirectory
    notes: tuple[str, ...] = ()
    size: str | None = None
    """Which of the plan's ``sizes`` it is."""


def plan_studies(
    source: Source | StudyPlan | None,
    vary: Vary = None,
    *,
    also: Sequence[Source | StudyPlan] = (),
    confirm: Path | str | None = None,
    cross: bool = False,
    set: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    pieces: int = 1,
) -> list[PlannedStudy]:
    """One study; several where a plan has ``bases`` or ``sizes``, or ``also`` adds recipes that get the same changes.

    ``settings``: keys of the plan that replace the plan's own; None means as the plan says. ``set``: recipe keys of every
    variant. ``confirm``: a finished study, whose winner is tested again. ``pieces``: of a batch, where trials run on several
    processes: recorded in the plan, because the bits depend on it; a recipe's own ``training.pieces`` stands.
    """
    recipe_keys, settings = dict(set or {}), {key: value for key, value in (settings or {}).items() if value is not None}
    if confirm is not None:
        if source is not None or vary:
            raise UsageError(
                "--confirm takes only the study; drop the recipe, plan or --vary.",
                reason="recipe-beside-confirm",
            )
        if settings or recipe_keys or out is not None:
            raise UsageError(
                "--confirm takes all settings (seeds, margin, metric, folder) from the study it confirms, so that nothing "
                "is chosen after seeing its results; drop the other settings.",
                reason="settings-beside-confirm",
            )
        source, out = confirmation(Study.load(confirm))
    if source is None:
        raise UsageError(
            "Nothing to compare; give a recipe with --vary, a plan, or --confirm STUDY.", reason="nothing-to-compare"
        )
    sources = [(one, _written_plans(one)) for one in (source, *also)]
    written = [(one, plan, size, len({size for _, size in several})) for one, several in sources for plan, size in several]
    plans = [
        _resolved_plan(one, plan, vary, cross=cross, set=recipe_keys, settings=settings, pieces=pieces)
        for one, plan, *_ in written
    ]
    if len(plans) == 1:
        ((plan, resolve, notes),) = plans
        folder = _default_folder(source, plan, resolve) if out is None else StudyDirectory(Path(out))
        return [PlannedStudy(plan, resolve, folder, notes)]
    sizes = {size: None for _, _, size, _ in written}
    sets = [_set_name(one, plan, at // count, len(plans) // len(sizes)) for at, (one, plan, _, count) in enumerate(written)]
    if len({*sets}) < len(plans) // len(sizes):
        sets = [f"{name}-{at // len(sizes) + 1}" for at, name in enumerate(sets)]
    several_sets = len({*sets}) > 1
    name = "-and-".join(dict.fromkeys(sets)) if several_sets or not isinstance(source, str | Path) else Path(source).stem
    root = Path(out) if out is not None else Path("studies") / name
    planned = {}
    for own, (_, _, size, _), (plan, resolve, notes) in zip(sets, written, plans):
        place = Path(*(own if several_sets else "", size or ""))
        planned[str(place)] = PlannedStudy(plan, resolve, StudyDirectory(root / place), notes, size)
    _require_same_question(planned)
    return list(planned.values())


RATE_OF_SIZES = "the learning rate of every size needs a rule, or the trend is the rate's"


def rate_of_sizes(planned: Sequence[PlannedStudy]) -> str:
    """How the learning rate of each size is chosen, in words; raises where one rate would be used for all sizes unsaid."""
    plans = [one.plan for one in planned]
    if all(plan.tune is not None and RATE in plan.tune.grid for plan in plans):
        return "tuned at each size, for every variant"
    models = [one.resolve(one.plan.set)["model"] for one in planned]
    inits = [model.get("init") for model in models]
    if all(isinstance(init, Mapping) and init.get("kind") == "mup" for init in inits):
        deep = "" if len({model.get("layers") for model in models}) == 1 else " (over width; the number of layers differs, too)"
        return f"transferred by muP from width {inits[0]['base_width']}{deep}"
    if all(RATE in plan.set for plan in plans):
        return "given for each size: " + ", ".join(f"{one.size} {one.plan.set[RATE]:g}" for one in planned)
    raise ConfigError(
        f"sizes: {RATE_OF_SIZES}; tune it (tune.grid with {RATE}), transfer it (model.init: mup), or give {RATE} in each size.",
        reason="sizes-without-rate",
    )


# -- reading -------------------------------------------------------------------------------------------------------------


def _written_plans(source: Source | StudyPlan) -> Sequence[tuple[StudyPlan | None, str | None]]:
    """The plan that ``source`` is or names, or one for each of its ``bases`` and ``sizes``, with the size's name.

    The plan is None when the source is a recipe.
    """
    if isinstance(source, StudyPlan):
        return [(source, None)]
    if isinstance(source, Mapping):
        return _at_each_size(source) if _is_plan(source) else [(None, None)]
    if not isinstance(source, str | Path):
        return [(None, None)]
    path = Path(source)
    if path.is_dir() and (StudyDirectory(path).exists() or _built_in(str(source)) is None):
        return [(StudyDirectory(path).plan(), None)]
    if is_text(path):
        return [(None, None)]
    if not path.is_file():
        if _built_in(str(source)) != "plan":
            return [(None, None)]
        path = built_in_studies()[str(source)]
    try:
        values = read_yaml(path)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error}).", reason="not-utf-8") from error
    if not isinstance(values, Mapping):
        return [(None, None)]
    if {"fingerprint", "plan"} <= {*values}:  # the plan.yaml of a study
        return [(StudyDirectory(path.parent).plan(), None)]
    if "bases" in values:
        if "base" in values:
            raise ConfigError(f"{path}: base and bases are both given; keep one of them.", reason="base-and-bases")
        rest = {key: value for key, value in values.items() if key != "bases"}
        plans = [_at_each_size({**rest, "base": _base_beside(base, path)}) for base in values["bases"]]
        return [one for several in plans for one in several]
    if not _is_plan(values):
        return [(None, None)]
    return _at_each_size({**values, "base": _base_beside(values.get("base"), path)})


def _at_each_size(values: Mapping[str, Any]) -> list[tuple[StudyPlan, str | None]]:
    """A plan with ``sizes`` (named settings) is a plan for each of them, whose settings go over the plan's own."""
    values = dict(values)
    sizes = values.pop("sizes", None)
    if sizes is None:
        return [(StudyPlan.parse(values), None)]
    if (
        not isinstance(sizes, Mapping)
        or len(sizes) < FEWEST_SIZES
        or not all(isinstance(one, Mapping) for one in sizes.values())
    ):
        raise ConfigError(
            f"sizes must name at least {FEWEST_SIZES} sizes with their settings, for example "
            "{small: {model.width: 64}, large: {model.width: 128}}.",
            reason="sizes-too-few",
        )
    plain = next((str(name) for name in sizes if folder_name(str(name)) != str(name)), None)
    if plain is not None:
        raise ConfigError(
            f"sizes: {plain!r} is the name of a folder, too; use lower-case letters, digits, dots and dashes.",
            reason="bad-size-name",
        )
    return [(StudyPlan.parse({**values, "set": {**values.get("set", {}), **own}}), str(name)) for name, own in sizes.items()]


def _is_plan(values: Mapping[str, Any]) -> bool:
    """A recipe has neither changes nor a base; a plan without changes has ``tune``."""
    return "changes" in values or {"base", "tune"} <= {*values}


def _base_beside(base: Any, plan_file: Path) -> Any:
    """A base file is looked up relative to the plan and inlined, so that the plan is self-contained."""
    if not isinstance(base, str):
        return base
    beside = plan_file.parent / base
    return recipe_values(beside) if beside.is_file() else _base_of(base)


def _base_of(source: Source, set: Mapping[str, Any] | None = None) -> str | dict[str, Any]:
    """A built-in recipe by name; anything else by value, so that the study does not depend on a file path."""
    built_in = built_in_recipes()
    if isinstance(source, str) and source in built_in and not Path(source).is_file():
        return source
    if isinstance(source, str | Path) and Path(source) in built_in.values():
        return Path(source).stem
    values = recipe_values(source, set)
    return {key: value for key, value in values.items() if key != "result"}


def _resolver(base: str | Mapping[str, Any]) -> Resolve:
    values = recipe_values(built_in_recipes().get(base, base) if isinstance(base, str) else base)
    known: dict[str, Recipe] = {}

    def resolve(changes: Mapping[str, Any]) -> dict[str, Any]:
        """The same changes are asked for many times: by the plan, its data, its trials."""
        key = repr(changes)
        if key not in known:
            known[key] = load_recipe(values, changes)
        return known[key].to_dict()

    return resolve


def _built_in(name: str) -> str | None:
    """Whether the package has a recipe or a plan of this name."""
    return "recipe" if name in built_in_recipes() else "plan" if name in built_in_studies() else None


def _display_name(source: Source | StudyPlan | None) -> str:
    return str(source) if isinstance(source, str | Path) else "This"


# -- the plan ------------------------------------------------------------------------------------------------------------


def _resolved_plan(
    source: Source | StudyPlan,
    written: StudyPlan | None,
    vary: Vary,
    *,
    cross: bool,
    set: Mapping[str, Any],
    settings: Mapping[str, Any],
    pieces: int = 1,
) -> tuple[StudyPlan, Resolve, tuple[str, ...]]:
    """The plan with its settings, the function that resolves its recipes, and notes to print."""
    values: dict[str, Any]
    if written is not None:
        if vary or cross:
            raise UsageError(
                f"{_display_name(source)} is a plan, which already lists its changes; give --vary with a recipe.",
                reason="vary-beside-plan",
            )
        values = _values_under(written, settings)
    else:
        assert not isinstance(source, StudyPlan)
        _refuse_unknown(source)
        if not vary and not settings.get("tune"):
            raise UsageError(
                f"{_display_name(source)} is a recipe, but nothing is varied; give --vary, for example "
                "model.positions=sinusoidal,alibi, or a grid to search with --tune.",
                reason="nothing-varied",
            )
        changes = changes_from(vary or {}, cross=cross) if vary else []
        values = {"base": _base_of(source, set), "set": {}, "changes": _with_own_rates(source, set, changes)}
    chosen_here = written is None and RATE not in set
    plan = StudyPlan.parse({**values, **settings, "set": {**values["set"], **set}})
    resolve = _resolver(plan.base)
    if pieces > 1 and resolve(plan.set)["training"].get("pieces") is None:
        plan = plan.model_copy(update={"set": {**plan.set, "training.pieces": pieces}})
    plan, repeats = without_repeats(plan, resolve)
    objective = Recipe.parse(resolve(plan.set)).objective
    plan = plan.with_metric(objective.metrics)
    refuse_metric(plan.judged, objective, "the base recipe")
    return (
        plan,
        resolve,
        (*repeats, *_about_rates(plan, resolve, chosen_here=chosen_here), *_name_clashes(source, plan, resolve)),
    )


RATE, TUNING = "training.lr", "model.tuning"


def _with_own_rates(source: Source, set: Mapping[str, Any], changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes of a table's recipe, each with the learning rate that ``train`` would choose for it."""
    if not is_text(source) or RATE in set:
        return changes
    base = value_at(recipe_values(source, set), RATE)
    found = []
    for change in changes:
        own = value_at(recipe_values(source, {**set, **change["set"]}), RATE)
        more = {} if RATE in change["set"] or own == base else {RATE: own}
        found.append({**change, "set": {**change["set"], **more}})
    return found


def _about_rates(plan: StudyPlan, resolve: Resolve, *, chosen_here: bool) -> list[str]:
    """A sentence for each change of ``model.tuning`` that has the baseline's learning rate, or (``chosen_here``) its own."""
    if plan.tune is not None and RATE in plan.tune.grid:
        return []
    notes = []
    base = Recipe.parse(resolve(plan.set)).training.lr
    for change in plan.changes:
        if not any(key == TUNING or key.startswith(f"{TUNING}.kind") for key in change.set):
            continue
        if RATE in change.set and not chosen_here:
            continue
        if RATE in change.set:
            notes.append(f"{change.name} has a learning rate of its own, {change.set[RATE]:g}; the baseline's is {base:g}.")
        else:
            notes.append(
                f"{change.name} has the baseline's learning rate, {base:g}, which was chosen for another way of tuning: the "
                f"verdict may be about the rate. Give it one of its own (a plan with {RATE} in set), or tune it (tune.grid)."
            )
    return notes


def _values_under(written: StudyPlan, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a plan that ``settings`` go over: without those of its own that would contradict them."""
    values = written.to_dict()
    first_look = written.all_looks[0]
    if not {"looks", "max_seeds"} & settings.keys() and settings.get("seeds", first_look) != first_look:
        values |= {"looks": [], "max_seeds": None}  # other than the plan's first look: a single look
    if settings.get("metric", written.metric) != written.metric:
        values |= {"margin": None, "measured": None}  # margin and direction belong to the plan's metric
    # In a new study all changes are planned; a resumed one has its exploratory marks in its folder.
    return {**values, "changes": [{**change, "exploratory": False} for change in values["changes"]]}


def changes_from(vary: Mapping[str, Sequence[Any]] | Sequence[str], *, cross: bool = False) -> list[dict[str, Any]]:
    """``--vary`` arguments -> the plan's changes: each value alone, or with ``cross`` all combinations."""
    values = dict(vary) if isinstance(vary, Mapping) else parse_vary(vary)
    if cross:
        products = itertools.islice(itertools.product(*values.values()), MOST_CHANGES + 1)
        settings: list[dict[str, Any]] = [dict(zip(values, chosen)) for chosen in products]
    else:
        settings = [{key: value} for key, several in values.items() for value in several]
    if len(settings) > MOST_CHANGES:
        raise ConfigError(
            f"--vary{' with --cross' if cross else ''} gives more than {MOST_CHANGES} changes; vary fewer keys or values.",
            reason="too-many-changes",
        )
    named = {" ".join(f"{key}={_format_value(value)}" for key, value in one.items()): one for one in settings}
    return [{"name": name, "set": one} for name, one in named.items()]


def _format_value(value: Any) -> str:
    """A value as part of a name: ``alibi``, ``64``, ``{kind: alibi}``."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_format_value(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_format_value(part) for part in value) + "]"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def without_repeats(plan: StudyPlan, resolve: Resolve) -> tuple[StudyPlan, list[str]]:
    """The plan without changes that equal the baseline or each other, and a note about each.

    Resolved recipes are compared, so a change to a default value is recognised as the baseline.
    """
    seen = {recipe_fingerprint(resolve(plan.set)): "the baseline"}
    distinct, notes = [], []
    for change in plan.changes:
        same_as = seen.setdefault(recipe_fingerprint(resolve({**plan.set, **change.set})), change.name)
        if same_as == change.name:
            distinct.append(change)
        else:
            notes.append(f"{change.name} is left out: it is the same as {same_as}.")
    if plan.changes and not distinct:
        raise ConfigError(
            f"No change is left to compare: {' '.join(notes)} Vary a key to another value.", reason="no-change-left"
        )
    return plan.model_copy(update={"changes": distinct}), notes


def _name_clashes(source: Source | StudyPlan, plan: StudyPlan, resolve: Resolve) -> list[str]:
    """A sentence for each name that is both a folder here and a built-in recipe or plan, saying which is used."""
    parents = (resolve(plan.settings(variant)).get("init_from") for variant in plan.variants)
    notes = [run_taken(parent) for parent in dict.fromkeys(parents) if parent is not None]
    if isinstance(source, str) and Path(source).is_dir() and (kind := _built_in(source)) is not None:
        study = StudyDirectory(Path(source)).exists()
        used, other = ("study in this folder", f"built-in {kind}") if study else (f"built-in {kind}", "folder")
        notes.append(f"{source} is the {used}, not the {other} of that name.")
    elif isinstance(plan.base, str) and is_run(plan.base):
        notes.append(
            f"base={plan.base} is the built-in recipe, not the run of that name in this folder; base={plan.base}/"
            "recipe.yaml is the run's."
        )
    return [note for note in notes if note is not None]


def _refuse_unknown(source: Source) -> None:
    """Raises for a name that is neither a recipe nor a plan, suggesting the nearest of both."""
    if not isinstance(source, str) or Path(source).exists():
        return
    known = {**built_in_recipes(), **built_in_studies()}
    if source in known or Path(source).suffix:  # a file that is missing is named where it would be read
        return
    if "/" in source:
        raise ConfigError(f"There is no study and no file {source}; check the path.", reason="no-such-file")
    raise UnknownName(f"There is no file and no built-in recipe or plan {source!r}.", source, known, whole=True)


# -- folders, and several sets -------------------------------------------------------------------------------------------


def _default_folder(source: Source | StudyPlan, plan: StudyPlan, resolve: Resolve) -> StudyDirectory:
    """The study's own folder, or studies/NAME: the first that is unused, or that holds this very plan."""
    if isinstance(source, str | Path) and StudyDirectory(Path(source)).exists():
        return StudyDirectory(Path(source))
    name = Path(source).stem if isinstance(source, str | Path) else "study"
    for number in range(1, 10_000):
        directory = StudyDirectory(Path("studies") / (name if number == 1 else f"{name}-{number}"))
        if not directory.root.exists() or directory.continues(plan, resolve):
            return directory
    raise UsageError("studies/ holds ten thousand studies of this name; name a folder with --out.", reason="no-folder-left")


def _set_name(source: Source | StudyPlan, written: StudyPlan | None, at: int, count: int) -> str:
    """The folder name of one of several sets: from the file or name, or from the base (of ``count`` in a plan), or a number."""
    by_base = written is not None and (count > 1 or not isinstance(source, str | Path))
    base = written.base if written is not None and by_base else source
    return Path(base).stem if isinstance(base, str | Path) else f"set-{at + 1}"


def _require_same_question(planned: Mapping[str, PlannedStudy]) -> None:
    """Raises if changes, metric or margin differ between sets, or if a set is given twice."""
    (first, study), *others = planned.items()
    for name, other in others:
        for what, own, its in (
            ("changes", [one.name for one in study.plan.changes], [one.name for one in other.plan.changes]),
            ("metric", study.plan.judged.name, other.plan.judged.name),
            ("margin", study.plan.same_within, other.plan.same_within),
        ):
            if own != its:
                raise ConfigError(
                    f"{what} must be the same on every set: {first} has {own}, and {name} has {its}.", reason="sets-differ"
                )
    seen: dict[str, str] = {}
    for name, one in planned.items():
        twin = seen.setdefault(recipe_fingerprint(one.resolve(one.plan.set)), name)
        if twin != name:
            raise ConfigError(
                f"{twin} and {name} are the same recipe on the same data, which is one set; give another one.",
                reason="set-given-twice",
            )


# -- a finished study -> the plan of its confirmation ------------------------------------------------------------------------
# The best of several changes is overestimated on the text it was selected on (winner's curse). A confirmation tests it again on
# fresh seeds and held-out text, is planned before its first run like any study, and a study has only one.

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
    recipe = done[0].run.read_recipe() if done else {}
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
