"""Rows and protocol (YAML) -> the recipe of any cell, and the jobs that `atlas run` does, most useful first.

A row is a change of the baseline with its claim; a job is one run: a row on a text at a size with a rate and a seed. Imports
torch only to match sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from glassformer.foundation.config import Config, override
from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.yaml_text import read_yaml

BASELINE = "baseline"
Role = Literal["row", "placebo", "ruler", "leak"]
Kind = Literal["loss", "stability", "length", "cache", "speed", "cost", "control"]


class Row(Config):
    """One published change, or a control. ``set``: the dotted keys that turn the baseline into it."""

    name: str = ""
    title: str
    slot: str
    family: str
    """Rows whose p values are corrected together; fixed before they are run."""
    year: int
    source: str
    kind: Kind
    """What the claim is about; only claims about the loss are tested by the loss."""
    claim: str
    equation: str = ""
    set: dict[str, Any] = Field(default_factory=dict)
    deviations: str = ""
    """Where ours differs from the paper."""
    role: Role = "row"
    match: bool = True
    """Whether the feed-forward is adapted when parameters differ by more than ``match_above``."""
    rate: float = Field(default=1.0, gt=0)
    """Times the baseline's learning rate."""
    steps: float = Field(default=1.0, gt=0)
    """Times the size's steps (rulers)."""
    parameters: float = Field(default=1.0, gt=0)
    """Times the baseline's parameters (rulers)."""
    first_seed: int = Field(default=0, ge=0)
    untestable: str = ""
    """Why the claim itself cannot be tested at these sizes."""


class Base(Config):
    title: str
    recipe: dict[str, Any]


class Text(Config):
    title: str
    about: str
    set: dict[str, Any]
    apart: bool = False
    """Whether it has no part in what is said over texts and over sizes: generated texts, which need a skill, and one that is
    read many times."""


class Size(Config):
    title: str
    design: Literal["bank", "paired"]
    lr: float = Field(gt=0)
    steps: int = Field(ge=1)
    set: dict[str, Any]


class Stage(Config):
    """A part of the order of work: families or rows on texts; ``tune``: those whose learning rate is tuned first."""

    size: str
    texts: list[str]
    base: str = "modern"
    families: list[str] = Field(default_factory=list)
    rows: list[str] = Field(default_factory=list)
    tune: list[str] = Field(default_factory=list)
    looks: bool = False
    """Whether it gives the rows that are not decided there the seeds of their next looks; it names no rows."""


class Protocol(Config):
    """What every cell shares."""

    margin: float = Field(gt=0)
    looks: list[int]
    bank: int = Field(ge=2)
    first_bank_seed: int
    rates: list[float]
    tuning_seeds: int = Field(ge=1)
    first_tuning_seed: int
    tuning_text: str
    tuning_size: str
    match_above: float
    bases: dict[str, Base]
    texts: dict[str, Text]
    sizes: dict[str, Size]
    stages: list[Stage]


@dataclass(frozen=True)
class Job:
    """One run. ``rate``: times the size's learning rate, all factors together. ``area``: of a cell, or of a rate curve."""

    row: str
    text: str
    size: str
    seed: int
    rate: float = 1.0
    base: str = "modern"
    area: Literal["trial", "tuning"] = "trial"

    @property
    def label(self) -> str:
        return f"{self.row}, {self.text}, {self.size}, rate {self.rate:g}, seed {self.seed}"


@dataclass(frozen=True)
class Atlas:
    """Rows and protocol; ``changes``: dotted keys for every recipe (a miniature on a CPU), which make other cells."""

    protocol: Protocol
    rows: Mapping[str, Row]
    changes: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None
    """In place of every size's steps."""
    _widths: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Those that were matched, by row, size and base."""

    @classmethod
    def load(cls, changes: Mapping[str, Any] | None = None, steps: int | None = None, more: Sequence[Path] = ()) -> Atlas:
        """The rows of the package, and those in the files ``more``."""
        folder = Path(str(resources.files("glassformer"))) / "atlas"
        protocol = Protocol.parse(read_yaml(folder / "protocol.yaml"), at="protocol")
        files = [*sorted((folder / "rows").glob("*.yaml")), *more]
        rows = {file.stem: Row.parse({**read_yaml(file), "name": file.stem}, at=file.name) for file in files}
        return cls(protocol, rows, dict(changes or {}), steps)

    def row(self, name: str) -> Row:
        if name == BASELINE:
            words = self.protocol.bases["modern"].title
            return Row(
                name=name, title="Baseline", slot="baseline", family="baseline", year=0, source="", kind="control", claim=words
            )
        if name not in self.rows:
            raise UnknownName("the atlas", name, self.rows)
        return self.rows[name]

    @cached_property
    def families(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for row in self.rows.values():
            found.setdefault(row.family, []).append(row.name)
        return found

    # -- recipes -----------------------------------------------------------------------------------------------------------

    def recipe(self, job: Job) -> dict[str, Any]:
        """The recipe of a job, with its matched width."""
        return override(self.plain_recipe(job), self.matched(job.row, job.size, job.base))

    def matched(self, row: str, size: str, base: str = "modern") -> dict[str, Any]:
        """The feed-forward width that gives a row the parameters it should have; empty where it has them."""
        if (row, size, base) not in self._widths:
            self._widths[row, size, base] = self._match(row, size, base)
        return self._widths[row, size, base]

    def _match(self, name: str, size: str, base: str) -> dict[str, Any]:
        from glassformer.recipe import Recipe
        from glassformer.study.planning.size_matching import match, size_of

        row, vocabulary = self.row(name), 256
        if name == BASELINE or not row.match:
            return {}
        jobs = (Job(one, self.protocol.tuning_text, size, 0, base=base) for one in (name, BASELINE))
        own, other = (Recipe.parse(self.plain_recipe(job)) for job in jobs)
        target = round(row.parameters * size_of(other.model, vocabulary, "parameters", 1))
        if abs(size_of(own.model, vocabulary, "parameters", 1) / target - 1.0) <= self.protocol.match_above:
            return {}
        try:
            return match(name, own, vocabulary, "parameters", target)[0]
        except ConfigError:  # its feed-forward has no width of its own: the cell shows both sizes
            return {}

    def plain_recipe(self, job: Job) -> dict[str, Any]:
        row, size, base = self.row(job.row), self.protocol.sizes[job.size], self.protocol.bases[job.base]
        steps = max(2, round((self.steps or size.steps) * row.steps))
        values = {"data": {}, **base.recipe}
        settings = {
            **self.protocol.texts[job.text].set,
            **size.set,
            "training.lr": float(f"{size.lr * job.rate:.4g}"),
            "training.steps": steps,
            "evaluation.every": steps,
            "checkpoint.every": steps,
            **row.set,
            **self.changes,
            "seed": job.seed,
        }
        return override(values, settings)

    # -- jobs --------------------------------------------------------------------------------------------------------------

    def seeds(self, row: str, size: str, count: int | None = None) -> range:
        """The seeds of a cell; without ``count`` those of the first look, of a baseline those it is compared by."""
        first, number = self.row(row).first_seed, self.protocol.looks[0]
        if row == BASELINE and self.protocol.sizes[size].design == "bank":
            first, number = self.protocol.first_bank_seed, self.protocol.bank
        return range(first, first + (count or number))

    def curve(self, row: str, rates: Sequence[float], base: str = "modern") -> list[Job]:
        """The runs of a rate curve: every rate with the tuning seeds."""
        first, where = self.protocol.first_tuning_seed, (self.protocol.tuning_text, self.protocol.tuning_size)
        seeds = range(first, first + self.protocol.tuning_seeds)
        return [Job(row, *where, seed, rate, base, "tuning") for seed in seeds for rate in rates]

    def cell(self, row: str, text: str, size: str, rate: float, base: str = "modern", seeds: int | None = None) -> list[Job]:
        return [Job(row, text, size, seed, rate, base) for seed in self.seeds(row, size, seeds)]

    def stage_rows(self, stage: Stage) -> list[str]:
        return [*(name for family in stage.families for name in self.families.get(family, ())), *stage.rows]

    def cells(self) -> Iterator[tuple[str, str, str, str]]:
        """(row, text, size, base) of every planned cell, in the order of work."""
        for stage in self.protocol.stages:
            for text in stage.texts:
                for row in self.stage_rows(stage):
                    yield row, text, stage.size, stage.base
