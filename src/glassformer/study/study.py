"""The Study a user holds: its plan, what every trial gave, a verdict per change; read from its folder. Imports no torch.

Everything is worked out from the trials' own files, so a study that was interrupted, moved or made on a cluster says the
same as one that was not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from glassformer.evaluation.results import text_table
from glassformer.foundation.config import diff
from glassformer.foundation.distributions import Floats, t_upper
from glassformer.foundation.errors import RunError, UnknownName
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.metrics import Metric
from glassformer.report.page import Cell, cell_text
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory
from glassformer.study.evidence import Problem, Trials
from glassformer.study.plan import BASE, StudyPlan
from glassformer.study.results import TrialResult, gathered, metric_of, read_trial
from glassformer.study.variants import Facts, VariantBook
from glassformer.study.verdict import Verdict, decide

if TYPE_CHECKING:
    from glassformer.run import Run

SAME_MACHINE = ("glassformer", "python", "torch", "device_name", "precision", "threads", "cpu")
"""What two trials must share to give the same bits."""


@final
class Study:
    """One study by its folder. ``failures``: why trials gave nothing, where their own folders cannot tell."""

    def __init__(self, directory: StudyDirectory, failures: Mapping[tuple[str, int], str] | None = None) -> None:
        self.directory = directory
        self.failures = dict(failures or {})

    @classmethod
    def load(cls, folder: Path | str) -> Study:
        """The study in ``folder``, finished or not."""
        directory = StudyDirectory(Path(folder))
        study = cls(directory, _failures(directory))
        study.plan  # noqa: B018  # a folder that is no study is refused here
        return study

    @property
    def folder(self) -> Path:
        return self.directory.root

    @cached_property
    def plan(self) -> StudyPlan:
        return self.directory.plan()

    @cached_property
    def book(self) -> VariantBook:
        return VariantBook.read(self.directory.variants_file)

    @property
    def metric(self) -> Metric:
        return self.plan.judged

    @cached_property
    def results(self) -> dict[str, list[TrialResult]]:
        """By variant, in the order of the seeds, all that the plan may come to use."""
        rows: dict[str, list[TrialResult]] = {name: [] for name in self.plan.variants}
        adapted = {name: facts.adapted for name, facts in self.book.variants.items()}
        for trial in self.plan.trials(adapted=adapted):
            try:
                result = read_trial(self.directory.trial(trial), trial, self.metric, self.plan.split)
            except RunError as error:
                result = TrialResult(trial, "pending", str(error))
            reason = self.failures.get((trial.variant, trial.seed))
            if result.status == "pending" and reason is not None:
                result = replace(result, status="failed", reason=reason, problem=Problem.MISSING)
            rows[trial.variant].append(result)
        return rows

    @cached_property
    def _gathered(self) -> tuple[dict[str, Trials], Floats]:
        leaks = {
            name: self.plan.all_looks[0]
            for name, facts in self.book.variants.items()
            if facts.leak is not None and not self.plan.allow_leaks
        }
        exploratory = [change.name for change in self.plan.changes if change.exploratory]
        return gathered(self.results, self.metric, leaks=leaks, exploratory=exploratory)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """One per change, in the plan's order."""
        trials, weights = self._gathered
        base, *changes = (trials[name] for name in self.plan.variants)
        return decide(base, changes, self.plan.rules(), weights=weights, labels=self.plan.seed_numbers)

    def verdict(self, variant: str) -> Verdict:
        for verdict in self.verdicts:
            if verdict.variant == variant:
                return verdict
        raise UnknownName("the study", variant, [verdict.variant for verdict in self.verdicts])

    def runs(self, variant: str = BASE) -> list[Run]:
        """The finished runs of a variant, by seed."""
        from glassformer.run import load

        if variant not in self.results:
            raise UnknownName("the study", variant, self.results)
        return [load(self.directory.trial(one.trial)) for one in self.results[variant] if one.status == "finished"]

    def finished(self, variant: str) -> list[TrialResult]:
        return [result for result in self.results[variant] if result.status == "finished"]

    def seed_values(self, variant: str) -> Floats:
        """The metric of each finished trial, over the whole set."""
        return np.array([metric_of(one.units, self.metric) for one in self.finished(variant) if one.units is not None])

    @cached_property
    def table(self) -> list[dict[str, Any]]:
        """One plain row per variant, the baseline first: result beside cost."""
        words = {BASE: "", **{verdict.variant: verdict.verdict for verdict in self.verdicts}}
        rows = []
        for name in self.plan.variants:
            facts = self.book.variants.get(name)
            rates = [one.tokens_per_second for one in self.finished(name) if one.tokens_per_second]
            rate = float(np.mean(rates)) if rates else None
            rows.append(
                {
                    "variant": name,
                    "verdict": words[name],
                    "seeds": len(self.finished(name)),
                    "failed": sum(one.problem is not None for one in self.results[name]),
                    self.metric.name: over_seeds(self.seed_values(name)).plain(),
                    "difference": Estimate(0.0).plain() if name == BASE else self.verdict(name).difference.plain(),
                    **_cost(facts),
                    "tokens_per_second": rate,
                    "seconds": facts.tokens / rate if facts and rate else None,
                }
            )
        return rows

    @cached_property
    def notes(self) -> list[str]:
        """What must be known to read the table."""
        notes = [note for facts in self.book.variants.values() for note in facts.notes]
        base = self.book.variants.get(BASE)
        for name, facts in self.book.variants.items():
            if base is not None and facts.tokens != base.tokens:
                notes.append(f"{name} is trained on {facts.tokens:,} tokens and the baseline on {base.tokens:,}.")
            if facts.leak is not None:
                notes.append(f"{name}: {facts.leak}")
        for rows in self.results.values():
            notes += [f"{one.trial.label}: {one.reason}" for one in rows if one.reason]
        return [*notes, *self._below_bigram(), *self._unlike_machines()]

    def _below_bigram(self) -> list[str]:
        notes = []
        for name in self.plan.variants:
            bigrams = [one.evaluation.baselines.get("bigram", {}).get("loss") for one in self.finished(name) if one.evaluation]
            own = [one.evaluation.metrics["loss"].value for one in self.finished(name) if one.evaluation]
            pairs = [(a, b.value) for a, b in zip(own, bigrams) if a is not None and b is not None and b.value is not None]
            if pairs and np.mean([a for a, _ in pairs]) >= np.mean([b for _, b in pairs]):
                notes.append(f"{name} is not better than a table of pairs of tokens (bigram): it has learned little.")
        return notes

    def _unlike_machines(self) -> list[str]:
        """Trials made by other builds or on other machines do not differ by seed alone."""
        seen: dict[str, dict[str, Any]] = {}
        for rows in self.results.values():
            for one in rows:
                if one.status == "finished":
                    environment = RunDirectory(self.directory.trial(one.trial)).read_environment()
                    seen[one.trial.label] = {key: environment.get(key) for key in SAME_MACHINE}
        first = next(iter(seen.items()), None)
        for label, environment in seen.items():
            differing = diff(first[1], environment) if first else {}
            if first and differing:
                key, (was, now) = next(iter(differing.items()))
                return [f"Not all trials were made alike: {key} is {was!r} for {first[0]} and {now!r} for {label}."]
        return []

    def plain(self) -> dict[str, Any]:
        """The JSON of the contract: verdicts, and what they rest on."""
        return {
            "verdicts": [verdict.plain() for verdict in self.verdicts],
            "study": str(self.folder),
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "margin": self.plan.same_within,
            "table": self.table,
            "notes": self.notes,
            "failures": [{"variant": name, "seed": seed, "reason": why} for (name, seed), why in self.failures.items()],
            "plan": self.plan.plain(),
        }

    def write(self) -> None:
        """Keeps the results beside the plan, for other tools."""
        write_json(self.directory.results_file, {"schema": StudyDirectory.SCHEMA, **self.plain()})

    def report(self, out: Path | str | None = None) -> Path:
        """Writes the self-contained page (and, in the study's own folder, Markdown with its pictures); gives its place."""
        from glassformer.study.report import write_report

        return write_report(self, out)

    def header(self) -> list[str]:
        return ["variant", "verdict", "seeds", self.metric.name, "difference", "parameters", "FLOPs", "memory", "tokens/s"]

    def cells(self) -> list[list[Cell]]:
        """The table for people: four significant digits, intervals in brackets."""
        return [
            [
                row["variant"],
                row["verdict"] or "baseline",
                row["seeds"],
                _estimate(row[self.metric.name]),
                None if row["variant"] == BASE else _estimate(row["difference"]),
                row["parameters"],
                None if row["flops"] is None else f"{row['flops']:.3g}",
                None if row["memory_bytes"] is None else f"{row['memory_bytes'] / 1e6:,.3g} MB",
                None if row["tokens_per_second"] is None else round(row["tokens_per_second"]),
            ]
            for row in self.table
        ]

    def __str__(self) -> str:
        rows = [self.header(), *([cell_text(cell) for cell in row] for row in self.cells())]
        sentences = [f"[{verdict.verdict}] {verdict.sentence}" for verdict in self.verdicts]
        return "\n".join([text_table(rows), "", *sentences, *(["", *self.notes] if self.notes else [])])

    def __repr__(self) -> str:
        words = ", ".join(f"{verdict.variant}: {verdict.verdict}" for verdict in self.verdicts)
        return f"Study({str(self.folder)!r}, {words})"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.header())
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell_text(cell))}</td>" for cell in row) + "</tr>" for row in self.cells()
        )
        items = "".join(f"<li><b>{escape(one.verdict)}</b> {escape(one.sentence)}</li>" for one in self.verdicts)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><ul>{items}</ul>{notes}"


def over_seeds(values: Sequence[float] | Floats) -> Estimate:
    """The mean over seeds with its 95 % interval: what another set of seeds would give on the same text."""
    n = len(values)
    if n == 0:
        return Estimate(None, reason="no trial has finished")
    mean = float(np.mean(values))
    if n == 1:
        return Estimate(mean, n=1)
    half = float(t_upper(0.025, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def _cost(facts: Facts | None) -> dict[str, Any]:
    if facts is None:
        return dict.fromkeys(("parameters", "flops", "memory_bytes", "tokens"))
    return {
        "parameters": facts.parameters,
        "flops": facts.flops,
        "memory_bytes": facts.memory_bytes,
        "tokens": facts.tokens,
    }


def _estimate(document: dict[str, Any]) -> Estimate | None:
    return None if document["value"] is None else Estimate.from_plain(document)


def _failures(directory: StudyDirectory) -> dict[tuple[str, int], str]:
    """Failures of the last session that left no folder to tell of them."""
    if not directory.results_file.is_file():
        return {}
    try:
        return {(one["variant"], one["seed"]): one["reason"] for one in read_json(directory.results_file)["failures"]}
    except (RunError, KeyError, TypeError):  # only a copy of what the trials say: it is written again
        return {}
