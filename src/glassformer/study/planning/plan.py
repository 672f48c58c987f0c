"""A study's plan: base recipe, single named changes, seeds, looks, margin and metric -> the trials to run.

Everything a verdict depends on is here and is written down before the first run. A plan comes from YAML or from ``--vary``
arguments (``planned_study.py``), which resolves recipes, too, so that reading a plan imports neither model code nor torch.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, Strict, model_validator

from glassformer.foundation.config import Config, fingerprint, flatten
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.files import sha256_of_text
from glassformer.foundation.metrics import LOSS, Metric
from glassformer.foundation.yaml_text import parse_yaml, read_yaml
from glassformer.study.planning.power import FEWEST_SEEDS, detectable
from glassformer.study.statistics.corrections import ALPHA, USUAL_LOOKS, Looks
from glassformer.study.statistics.verdict import DEFAULT_MARGIN, Rules


class Range(Config):
    """Values between two numbers, drawn by ``scale``; whole numbers where both ends are."""

    low: int | float
    high: int | float
    scale: Literal["log", "linear"] = "log"

    def draw(self, generator: np.random.Generator) -> int | float:
        """A random value, rounded to three significant digits."""
        ends = (math.log(self.low), math.log(self.high)) if self.scale == "log" else (self.low, self.high)
        drawn = float(generator.uniform(*ends))
        value = min(max(float(f"{math.exp(drawn) if self.scale == 'log' else drawn:.3g}"), self.low), self.high)
        return round(value) if isinstance(self.low, int) and isinstance(self.high, int) else value


Space = Mapping[str, list[Any] | Range]
"""For each dotted key the values, or the range, to choose from."""


def number_of_points(space: Space, tries: int | None = None) -> int:
    """How many settings are tried; raises if the space has fewer, or a bad range."""
    ranges = {key: values for key, values in space.items() if isinstance(values, Range)}
    for key, one in ranges.items():
        if not one.low < one.high:
            raise ConfigError(
                f"tune.grid.{key}: low={one.low} must be below high={one.high}; swap them.", reason="range-reversed"
            )
        if one.scale == "log" and not one.low > 0:
            raise ConfigError(
                f"tune.grid.{key}: low={one.low} has no logarithm; give a number above 0, or scale: linear.",
                reason="range-not-positive",
            )
    if ranges and tries is None:
        raise ConfigError(
            f"tune.grid.{next(iter(ranges))} is a range; set tune.tries, the number of points to draw at random.",
            reason="range-without-tries",
        )
    size = math.prod(len(values) for values in space.values() if not isinstance(values, Range))
    if tries is not None and not ranges and tries > size:
        raise ConfigError(
            f"tune.tries={tries} is more than all {size} combinations; leave it out to try them all.",
            reason="too-many-tries",
        )
    return size if tries is None else tries


def points_of(space: Space, tries: int | None = None) -> list[dict[str, Any]]:
    """The settings to try: all combinations in order, or ``tries`` distinct random ones, seeded by the space itself."""
    if tries is None:
        lists = [values for values in space.values() if not isinstance(values, Range)]
        return [dict(zip(space, chosen)) for chosen in itertools.product(*lists)]
    plain = {key: values.to_dict() if isinstance(values, Range) else list(values) for key, values in space.items()}
    generator = np.random.default_rng(int(fingerprint([plain, tries])[:16], 16))
    points: list[dict[str, Any]] = []
    for _ in range(1000 * tries):
        point = {
            key: values.draw(generator) if isinstance(values, Range) else values[int(generator.integers(len(values)))]
            for key, values in space.items()
        }
        if point not in points:
            points.append(point)
        if len(points) == tries:
            return points
    raise ConfigError(
        f"tune.tries={tries}: the ranges of tune.grid hold only {len(points)} different settings; ask for fewer.",
        reason="range-too-narrow",
    )


BASE = "base"
VALIDATION_SPLIT = "validation"
USUAL_SEEDS = 8
LONGEST_FOLDER = 60
FIRST_TUNING_SEED = 1_000_000  # disjoint from the seeds that are compared, so that tuning never sees them
TUNING_SEEDS_APART = 1_000  # for each seed that a study begins later: a study on fresh seeds has fresh tuning seeds, too
# Keys ignored when recipes are compared: descriptions, and the seed, which the study sets.
NOT_COMPARED = ("about", "result", "seed")
MONITORING_KEYS = ("checkpoint.", "training.log_every.", "evaluation.texts.", "evaluation.batch_size.")
"""Keys for saving and monitoring, which do not affect the weights. Without patience, all of ``evaluation`` is."""

Area = Literal["trials", "tuning"]
"""The part of a study's folder that a trial belongs to."""
Resolve = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Dotted changes -> the base recipe's values with them; raises for keys and values that do not exist."""


class Change(Config):
    """One named change: the dotted keys it sets. ``exploratory``: it was added after the study began."""

    name: str = Field(min_length=1)
    set: dict[str, Any] = Field(min_length=1)
    tune: dict[str, list[Any] | Range] = Field(default_factory=dict)
    """A grid of its own instead of the plan's ``tune.grid``: other values, but equally many points."""
    exploratory: bool = False

    @model_validator(mode="after")
    def _validate_change(self) -> Self:
        if "seed" in self.set:
            raise ConfigError(
                f"changes: {self.name!r} sets seed, but the study gives every variant the same seeds; remove it.",
                reason="seed-varied",
            )
        if self.name == BASE:
            raise ConfigError(
                f"changes: no change may be called {BASE!r}; that is the name of the recipe as it stands.",
                reason="change-called-base",
            )
        return self


def _each_change(values: Any) -> Any:
    """Parses the changes one by one, so that an error names the position in the list."""
    if not isinstance(values, list | tuple):
        return values
    return [value if isinstance(value, Change) else Change.parse(value, at=f"changes.{i}") for i, value in enumerate(values)]


class Tuning(Config):
    """The search space of every variant, the baseline too; tuned on separate seeds.

    Without ``tries`` it is a grid search; with it, a random search of so many points, and a key may have a range of values.
    """

    grid: dict[str, list[Any] | Range] = Field(min_length=1)
    tries: int | None = Field(default=None, ge=2)
    seeds: int = Field(default=4, ge=1)
    """With fewer than 4 the choice is mostly noise, which widens the interval."""

    @model_validator(mode="after")
    def _validate_grid(self) -> Self:
        if "seed" in self.grid:
            raise ConfigError(
                "tune.grid: seed cannot be tuned: every variant gets the same seeds; remove it.", reason="seed-tuned"
            )
        if number_of_points(self.grid, self.tries) < 2:
            raise ConfigError(
                "tune.grid has one point only, so there is nothing to choose; give some key two values or more.",
                reason="one-tuning-point",
            )
        return self


class StudyPlan(Config):
    """What is compared, on what, with how many seeds, and what will count as a difference."""

    about: str = ""
    base: str | dict[str, Any]
    """A recipe: a file, a built-in name, or its values."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Dotted keys set in every variant, the baseline too."""
    changes: Annotated[list[Change], BeforeValidator(_each_change)] = Field(default_factory=list)
    """At least one, unless there is ``tune``: then only the baseline is tuned, and measured at its best setting."""
    seeds: int | None = None
    """8 when neither looks nor max_seeds are given."""
    looks: Annotated[tuple[int, ...], Strict(False)] = ()
    max_seeds: int | None = None
    first_seed: int = Field(default=0, ge=0)
    """A second study needs fresh seeds: start after the last one of the first."""
    metric: str | None = None
    """The objective's first metric unless given."""
    measured: dict[str, Any] | None = None
    """The metric's unit, direction and default margin: copied from the objective, so that the study can be read without it.
    Written by ``compare``, not by the user."""
    split: str = VALIDATION_SPLIT
    """The split that variants are judged on. Each trial that reads the test split records it."""
    margin: float | None = Field(default=None, gt=0)
    """The smallest difference that matters; the metric's default unless given."""
    planned_effect: float | None = Field(default=None, gt=0)
    alpha: float = Field(default=ALPHA, gt=0, le=ALPHA)
    """How often a change that does nothing is called better or worse, at most: words mean the same in every study, or more."""
    allow_leaks: bool = False
    match: Literal["parameters", "flops"] | None = None
    """Adapt the feed-forward's inner width of every change, so that it has as many parameters (or FLOPs) as the baseline."""
    equal: Annotated[tuple[Literal["parameters", "flops", "tokens", "time"], ...], Strict(False)] = ()
    """What every change must have like the baseline, to 1 % (time: 10 %). Otherwise it is refused before training; what is only
    known afterwards makes it invalid."""
    tune: Tuning | None = None
    design: Literal["paired", "bank"] = "paired"
    """Paired by seed; or each change against stored runs of the baseline, those with the seeds in ``bank``."""
    bank: Annotated[tuple[int, ...], Strict(False)] = ()
    confirms: str | None = None
    """The study whose winner this one tests again, on held-out text."""
    budget_hours: float | None = Field(default=None, gt=0)
    """Maximum hours of training, summed over all trials. No look is started that would exceed it."""

    @model_validator(mode="after")
    def _validate_plan(self) -> Self:
        names = [change.name for change in self.changes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(
                f"changes: {', '.join(map(repr, twice))} names more than one change; give each its own name.",
                reason="name-used-twice",
            )
        if not self.changes and self.tune is None:
            raise ConfigError(
                "changes is empty and there is no tune; give at least one change, or a grid to search.", reason="no-changes"
            )
        self._check_seeds()
        Looks(self.all_looks, self.alpha)
        if self.design == "bank" and len(self.bank) < 2:
            raise ConfigError(
                f"design=bank compares changes with stored runs of the baseline, but bank={list(self.bank)} names fewer than 2 "
                "of their seeds; leave design out and use --baseline bank.",
                reason="bank-too-small",
            )
        self._check_tuning()
        return self

    def _check_tuning(self) -> None:
        tuned = [change for change in self.changes if change.tune]
        if self.tune is None:
            if tuned:
                raise ConfigError(
                    f"changes: {tuned[0].name!r} has tune, but the plan has none; give the plan (the baseline) a grid too.",
                    reason="tune-without-plan",
                )
            return
        for change in self.changes:
            grid = change.tune or self.tune.grid
            own, theirs = (number_of_points(one, self.tune.tries) for one in (grid, self.tune.grid))
            if own != theirs:
                raise ConfigError(
                    f"changes: {change.name!r} tries {own} settings and the baseline {theirs}; give all the same number.",
                    reason="unequal-tuning",
                )
            taken = sorted(set(grid) & set(change.set))
            if taken:
                raise ConfigError(
                    f"changes: {change.name!r} sets {taken[0]} and tunes it too; leave it out of one of the two.",
                    reason="key-set-and-tuned",
                )
        if self.match is not None and any(key.startswith("model.") for key in self.tune.grid):
            raise ConfigError(
                f"match={self.match} fixes the size of the model, so tune.grid cannot change model settings.",
                reason="match-with-tuned-model",
            )

    def _check_seeds(self) -> None:
        first, last = self.all_looks[0], self.all_looks[-1]
        if last < 2:
            raise ConfigError(
                f"seeds={last}: one seed cannot show the noise; give 2 or more, and at least {FEWEST_SEEDS} for verdicts.",
                reason="one-seed",
            )
        if self.looks and self.seeds not in (None, first):
            raise ConfigError(
                f"seeds={self.seeds} is not the first of looks={list(self.looks)}; leave one of the two out.",
                reason="seeds-not-first-look",
            )
        if self.max_seeds is not None and (last != self.max_seeds or (self.seeds or 0) > self.max_seeds):
            raise ConfigError(
                f"max_seeds={self.max_seeds} must be the last look; here seeds={self.seeds} and looks={list(self.looks)}.",
                reason="max-seeds-not-last-look",
            )
        if first < min(FEWEST_SEEDS, last):
            raise ConfigError(
                f"The first look is at {first} seeds; a verdict needs at least {FEWEST_SEEDS}, so look later.",
                reason="first-look-too-early",
            )

    @property
    def all_looks(self) -> tuple[int, ...]:
        """The numbers of seeds at which the study is judged: a single one when only ``seeds`` is given."""
        if self.looks:
            return self.looks
        if self.max_seeds is None:
            return (USUAL_SEEDS if self.seeds is None else self.seeds,)
        first = min(self.seeds or USUAL_LOOKS[0], self.max_seeds)
        return tuple(sorted({first, *(n for n in USUAL_LOOKS if first < n < self.max_seeds), self.max_seeds}))

    @property
    def planned(self) -> list[Change]:
        return [change for change in self.changes if not change.exploratory]

    @property
    def variants(self) -> list[str]:
        return [BASE, *(change.name for change in self.changes)]

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        """The seeds the plan may use, in order."""
        return tuple(range(self.first_seed, self.first_seed + self.all_looks[-1]))

    def rules(self) -> Rules:
        """What the verdict needs of this plan."""
        by_pairs = self.design == "paired"
        return Rules(self.all_looks, self.judged, self.same_within, self.alpha, self.planned_effect, by_pairs)

    @property
    def judged(self) -> Metric:
        """The metric that is compared; before ``with_metric`` the built-in one of that name."""
        if self.measured is not None:
            return Metric.from_dict(self.measured)
        return Metric.named(self.metric or LOSS.name)

    @property
    def same_within(self) -> float:
        """The margin of the plan, or the metric's default."""
        return self.margin or self.judged.margin or DEFAULT_MARGIN

    def with_metric(self, metrics: Sequence[Metric]) -> StudyPlan:
        """The plan with a copy of its metric, and with its margin filled in."""
        metric = metrics[0] if self.metric is None else Metric.named(self.metric, metrics)
        margin = self.margin or metric.margin or DEFAULT_MARGIN
        return self.model_copy(update={"metric": metric.name, "measured": metric.to_dict(), "margin": margin})

    def settings(self, variant: str) -> dict[str, Any]:
        """The dotted keys that turn the base recipe into a variant, without the seed."""
        return {**self.set, **self.own_settings(variant)}

    def own_settings(self, variant: str) -> dict[str, Any]:
        """What the change itself sets; empty for the baseline."""
        return next((change.set for change in self.changes if change.name == variant), {})

    def trials(self, seeds: int | None = None, adapted: Mapping[str, Mapping[str, Any]] | None = None) -> list[Trial]:
        """Every variant with each of the first ``seeds`` seeds; seed by seed, so that whole pairs finish early.

        With a bank the baseline has the bank's seeds, all of them at every look.

        ``adapted``: by variant, the settings from matching and tuning.
        """
        more = adapted or {}
        pairs = [(seed, variant) for seed in self.seed_numbers[:seeds] for variant in self.variants]
        if self.design == "bank":
            pairs = [*((seed, BASE) for seed in self.bank), *(one for one in pairs if one[1] != BASE)]
        return [
            Trial(
                variant,
                seed,
                {**self.settings(variant), **more.get(variant, {}), "seed": seed},
                f"{folder_name(variant)}/seed-{seed}",
            )
            for seed, variant in pairs
        ]

    def checks_trained(self, trial: Trial) -> bool:
        """Whether this trial's model is checked again after training: true for each variant's first seed."""
        first = self.bank[0] if self.bank and trial.variant == BASE else self.first_seed
        return trial.area == "trials" and trial.seed == first

    @property
    def tuning_seeds(self) -> range:
        """The seeds that settings are chosen on."""
        if self.tune is None:
            return range(0)
        first = FIRST_TUNING_SEED + TUNING_SEEDS_APART * self.first_seed
        return range(first, first + self.tune.seeds)

    def tuning_points(self, variant: str) -> list[dict[str, Any]]:
        """The points of a variant's search space."""
        if self.tune is None:
            return []
        grid = next((change.tune for change in self.changes if change.name == variant and change.tune), self.tune.grid)
        return points_of(grid, self.tune.tries)

    def tuning_trials(self, adapted: Mapping[str, Mapping[str, Any]] | None = None) -> list[Trial]:
        """Every variant at each point of its grid, on seeds that the comparison does not use."""
        if self.tune is None:
            return []
        more = adapted or {}
        return [
            Trial(
                variant,
                seed,
                {**self.settings(variant), **more.get(variant, {}), **point, "seed": seed},
                f"{folder_name(variant)}/point-{number}/seed-{seed}",
                area="tuning",
                point=number,
            )
            for seed in self.tuning_seeds
            for variant in self.variants
            for number, point in enumerate(self.tuning_points(variant))
        ]

    def split_of(self, trial: Trial) -> str:
        """The split a trial is evaluated on: tuning always uses validation, never the split of the verdicts."""
        return VALIDATION_SPLIT if trial.area == "tuning" else self.split

    def power_sentence(self) -> str:
        """The power of the study, in a sentence printed before the first run."""
        looks, count = self.all_looks, len(self.planned)
        if looks[-1] < FEWEST_SEEDS:
            return f"With {looks[-1]} seeds nothing will be decided (that takes {FEWEST_SEEDS}); the noise will be measured."
        if not count:
            return "Nothing is compared: the best setting found is trained on new seeds, for a result with an interval."
        # looking early costs some power: 75 to 78 % instead of 80, in simulated studies of 1, 3 and 5 changes
        power, seeds = ("80 %", "") if len(looks) == 1 else ("75 %", "up to ")
        changes = "1 change" if count == 1 else f"{count} changes"
        return (
            f"Power: with {seeds}{looks[-1]} seeds and {changes}, {power} of studies find a true difference that is "
            f"{detectable(looks[-1], count, self.alpha):.2g} times as large as its scatter from seed to seed; a smaller one is "
            "found less often."
        )


@dataclass(frozen=True)
class Trial:
    """One run of a study: a variant, a seed, the settings that make it, and its folder inside the study's."""

    variant: str
    seed: int
    set: dict[str, Any]
    folder: str
    area: Area = "trials"
    point: int = 0
    """Which setting of its grid, for a trial of the area ``tuning``."""

    @property
    def label(self) -> str:
        at = f" (setting {self.point + 1} of its grid)" if self.area == "tuning" else ""
        return f"{self.variant}, seed {self.seed}{at}"


def built_in_studies() -> dict[str, Path]:
    """The files of the built-in plans, by name."""
    folder = Path(str(resources.files("glassformer"))) / "recipes" / "studies"
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def list_studies() -> list[dict[str, str]]:
    """Name, description and base recipe of each built-in plan."""
    plans = {name: read_yaml(file) for name, file in built_in_studies().items()}
    return [{"name": name, "about": values["about"], "base": values["base"]} for name, values in plans.items()]


def parse_vary(texts: Sequence[str]) -> dict[str, list[Any]]:
    """``["model.width=64,128"]`` -> ``{"model.width": [64, 128]}``; values are YAML, so ``{kind: alibi}`` is one value."""
    values: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, listed = text.partition("=")
        key = key.strip()
        if not equals or not key or not listed.strip():
            raise ConfigError(
                f"--vary {text!r} is not of the form key=value,value, for example model.positions=sinusoidal,alibi.",
                reason="not-an-assignment",
            )
        values.setdefault(key, []).extend(parse_yaml(f"[{listed}]", f"--vary {text!r}"))
    return values


def recipe_fingerprint(recipe: Mapping[str, Any]) -> str:
    """A fingerprint of a recipe without its description and its seed."""
    return fingerprint(_compared_values(recipe))


def program_of(recipe: Mapping[str, Any]) -> str:
    """A name for what a recipe's training runs on a device: the same for any seed, learning rate and number of steps."""
    values = _compared_values(recipe)
    training = {key: value for key, value in values.get("training", {}).items() if key not in ("lr", "steps")}
    return fingerprint({**values, "training": training})[:12]


def training_fingerprint(recipe: Mapping[str, Any]) -> str:
    """A fingerprint of what a recipe trains: recipes that differ only in saving and monitoring give the same weights."""
    return fingerprint(_without_monitoring(flatten(_compared_values(recipe))))


def training_values(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe by dotted key, defaults included, without those of saving and monitoring."""
    values = {key: value for key, value in recipe.items() if key not in NOT_COMPARED}
    return _without_monitoring(flatten(values))


def _without_monitoring(values: Mapping[str, Any]) -> dict[str, Any]:
    ignored = MONITORING_KEYS if values.get("evaluation.patience") is not None else (*MONITORING_KEYS, "evaluation.")
    return {key: value for key, value in values.items() if not f"{key}.".startswith(ignored)}


def _compared_values(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What a recipe sets other than its defaults, without its description and its seed."""
    from glassformer.recipe import Recipe  # imports torch; reading a plan does not

    return {key: value for key, value in Recipe.parse(recipe).non_defaults().items() if key not in NOT_COMPARED}


def folder_name(name: str) -> str:
    """A folder name for a variant that is valid on any file system; it depends on the variant's name only."""
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.") or "change"
    if plain == name and len(name) <= LONGEST_FOLDER and name == name.lower():
        return name
    # shortened, or ambiguous on a case-insensitive file system: a checksum makes it unique
    return f"{plain[:LONGEST_FOLDER].rstrip('-.')}-{sha256_of_text(name)[:8]}"
