"""The arguments of ``compare`` (a recipe with changes, a plan, or a study's folder) -> the plan and its recipe resolver.

Reads files and names only; runs nothing, and does not choose the study's folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.data.reading.recipe_from_file import is_text
from glassformer.foundation.errors import ConfigError, UnknownName, UsageError
from glassformer.foundation.yaml_text import parse_yaml
from glassformer.recipe import Recipe, Source, built_in_recipes, is_run, load_recipe, recipe_values, run_taken
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.library import built_in_studies
from glassformer.study.planning.plan import Resolve, StudyPlan, plan_from_flags, without_repeats
from glassformer.study.planning.variant_data import refuse_metric


def find_plan(
    source: Source | StudyPlan,
    vary: Mapping[str, Sequence[Any]] | Sequence[str] | None,
    *,
    cross: bool,
    set: Mapping[str, Any],
    **given: Any,
) -> tuple[StudyPlan, Resolve, list[str]]:
    """The plan, the function that resolves its recipes, and notes to print."""
    read = _written_plan(source)
    if read is None:
        assert not isinstance(source, StudyPlan)
        _refuse_unknown(source)
        if not vary:
            raise UsageError(
                f"{_display_name(source)} is a recipe, and nothing is varied; give --vary, for example "
                "model.positions=sinusoidal,alibi."
            )
        base = _base_of(source, set)
        resolve = _resolver(base, {})
        plan, notes = plan_from_flags(base, vary, resolve, cross=cross, set=dict(set), **given)
        plan = _with_metric(plan.with_fresh_tuning(), resolve)
        return plan, resolve, [*notes, *_name_clash_notes(source, plan, resolve)]
    if vary or cross:
        raise UsageError(f"{_display_name(source)} is a plan, which says what is varied; give --vary with a recipe.")
    if not {"looks", "max_seeds"} & given.keys() and given.get("seeds", read.all_looks[0]) != read.all_looks[0]:
        given = {**given, "looks": [], "max_seeds": None}  # other than the plan's first look: a single look
    if given.get("metric", read.metric) != read.metric:  # margin and direction belong to the plan's metric
        given = {"margin": None, "measured": None, **given}
    # In a new study all changes are planned; a resumed one has its exploratory marks in its folder.
    changes = [change.model_copy(update={"exploratory": False}).to_dict() for change in read.changes]
    plan = StudyPlan.parse({**read.to_dict(), **given, "set": {**read.set, **set}, "changes": changes})
    if plan.first_seed != read.first_seed or plan.tune is None or plan.tune.first_seed is None:
        plan = plan.with_fresh_tuning()
    resolve = _resolver(plan.base, {})
    plan, notes = without_repeats(plan, resolve)
    return _with_metric(plan, resolve), resolve, [*notes, *_name_clash_notes(source, plan, resolve)]


def _name_clash_notes(source: Source | StudyPlan, plan: StudyPlan, resolve: Resolve) -> list[str]:
    """A sentence for each name that is both a folder here and a built-in recipe or plan, saying which is used."""
    places = (resolve(plan.settings(variant)).get("init_from") for variant in plan.variants)
    notes = [run_taken(place) for place in dict.fromkeys(places) if place is not None]
    if isinstance(source, str) and Path(source).is_dir() and (kind := _built_in(source)) is not None:
        study = StudyDirectory(Path(source)).exists()
        taken, other = ("study in this folder", f"built-in {kind}") if study else (f"built-in {kind}", "folder")
        notes.append(f"{source} is the {taken}, not the {other} of that name.")
    elif isinstance(plan.base, str) and is_run(plan.base):
        notes.append(
            f"base={plan.base} is the built-in recipe, not the run of that name in this folder; base={plan.base}/"
            "recipe.yaml is the run's."
        )
    return [note for note in notes if note is not None]


def _built_in(name: str) -> str | None:
    """Whether the package has a recipe or a plan of this name."""
    return "recipe" if name in built_in_recipes() else "plan" if name in built_in_studies() else None


def _refuse_unknown(source: Source) -> None:
    """Raises for a name that is neither a recipe nor a plan, suggesting the nearest of both."""
    if not isinstance(source, str) or Path(source).exists():
        return
    known = {**built_in_recipes(), **built_in_studies()}
    if source in known or Path(source).suffix:  # a file that is missing is named where it would be read
        return
    if "/" in source:
        raise ConfigError(f"There is no study and no file {source}; check the path.")
    raise UnknownName(f"There is no file and no built-in recipe or plan {source!r}.", source, known, whole=True)


def _with_metric(plan: StudyPlan, resolve: Resolve) -> StudyPlan:
    """The plan with a copy of its metric, which the base recipe's objective must support."""
    objective = Recipe.parse(resolve(plan.set)).objective
    found = plan.with_metric(objective.metrics)
    refuse_metric(found.judged, objective, "the base recipe")
    return found


def _written_plan(source: Source | StudyPlan) -> StudyPlan | None:
    """The plan that ``source`` is or names; None when it is a recipe."""
    if isinstance(source, StudyPlan):
        return source
    if isinstance(source, Mapping):
        return StudyPlan.parse(source) if _is_plan(source) else None
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    if path.is_dir() and (StudyDirectory(path).exists() or _built_in(str(source)) is None):
        return StudyDirectory(path).plan()
    if is_text(path):
        return None
    if not path.is_file():
        built_in = built_in_studies()
        if str(source) not in built_in or str(source) in built_in_recipes():
            return None
        path = built_in[str(source)]
    values = _yaml(path)
    if not isinstance(values, Mapping):
        return None
    if {"fingerprint", "plan"} <= {*values}:  # the plan.yaml of a study
        return StudyDirectory(path.parent).plan()
    if not _is_plan(values):
        return None
    return StudyPlan.parse({**values, "base": _load_base(values.get("base"), path)})


def _is_plan(values: Mapping[str, Any]) -> bool:
    """A recipe has neither changes nor a base; a plan without changes has ``tune``."""
    return "changes" in values or {"base", "tune"} <= {*values}


def _yaml(path: Path) -> Any:
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error}).") from error


def _load_base(base: Any, plan_file: Path) -> Any:
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


def _resolver(base: str | Mapping[str, Any], more: Mapping[str, Any]) -> Resolve:
    values = recipe_values(built_in_recipes().get(base, base) if isinstance(base, str) else base)

    def resolve(changes: Mapping[str, Any]) -> dict[str, Any]:
        return load_recipe(values, {**more, **changes}).to_dict()

    return resolve


def _display_name(source: Source | StudyPlan) -> str:
    return str(source) if isinstance(source, str | Path) else "This"


def several_bases(source: str | Path) -> list[dict[str, Any]] | None:
    """The plans in a plan file with ``bases``, one per base; None for any other source."""
    path = Path(source)
    path = built_in_studies().get(str(source), path) if not path.is_file() else path
    values = _yaml(path) if path.is_file() and path.suffix in (".yaml", ".yml") else None
    if not isinstance(values, Mapping) or "bases" not in values:
        return None
    if "base" in values:
        raise ConfigError(f"{path}: base and bases both say what is changed; leave one of the two out.")
    rest = {key: value for key, value in values.items() if key != "bases"}
    return [{**rest, "base": _load_base(base, path)} for base in values["bases"]]
