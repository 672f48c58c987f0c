"""``Study``, the result of ``compare``: plan, trial results and verdicts, read from its folder. Imports no torch.

Everything is computed from the trials' files, so interrupting or moving a study, or running it on a cluster, changes nothing.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from glassformer.evaluation.interval_estimates import AUTOCORRELATED_UNITS, mean
from glassformer.evaluation.results import text_table
from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import RunError, UnknownName
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.metrics import Metric
from glassformer.pages.page import Cell, cell_text
from glassformer.runs.records import MetricsLog, frame_of
from glassformer.study.directory import StudyDirectory
from glassformer.study.history.attempts import attempts_of, ledger_of
from glassformer.study.history.ledger import Attempt, Earlier
from glassformer.study.planning.conditions import joined, unequal
from glassformer.study.planning.plan import BASE, StudyPlan, Trial
from glassformer.study.planning.variant_facts import Facts, VariantBook
from glassformer.study.reporting.study_notes import (
    conditions_of,
    conditions_of_trials,
    mean_logged,
    measured_of_trials,
    notes_of,
    notes_of_trials,
    remarks_of_trials,
    share_spent,
)
from glassformer.study.reporting.wording import why_withheld
from glassformer.study.running.trial_results import TrialResult, gather_trials, metric_of, read_trial
from glassformer.study.statistics.evidence import Problem, Trials
from glassformer.study.statistics.selection_variance import tuning_variance
from glassformer.study.statistics.steps_worth import Ruler, StepsWorth, curve_ruler, steps_worth
from glassformer.study.statistics.verdict import RULES, Verdict, decide
from glassformer.study.values_file import StudyValues, VariantValues, read_values, write_values

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from glassformer.run import Run

STEPS = "training.steps"
COSTS = ("parameters", "flops", "memory_bytes", "tokens", "tokens_per_second", "seconds")


@final
class Study:
    """A study in its folder, from ``compare`` or ``Study.load``: plan, trials, verdicts, table, figures; shows itself whole.

    Arguments that mean the same in every method: ``variant`` is the name of a change (as in ``plan.variants``), "base" the
    baseline; ``trial`` one of ``plan.trials()``.

    ```python
    study = gf.Study.load("studies/example")
    for verdict in study.verdicts:
        print(verdict.variant, verdict.verdict, verdict.difference)
    print(study.frame("seed"))
    study.figure("values").savefig("values.pdf")
    ```
    """

    def __init__(self, directory: StudyDirectory, failures: Mapping[tuple[str, int], str] | None = None) -> None:
        self.directory = directory
        self.failures = dict(failures or {})  # of trials that left no folder

    @classmethod
    def load(cls, folder: Path | str) -> Study:
        """The study in ``folder``, finished or not."""
        directory = StudyDirectory(Path(folder))
        study = cls(directory, _failures(directory))
        study.plan  # noqa: B018  # raises if the folder is not a study
        return study

    @property
    def folder(self) -> Path:
        """Where plan, trials, results and report are stored."""
        return self.directory.root

    @cached_property
    def plan(self) -> StudyPlan:
        """What was compared, on what, with how many seeds: written before the first run."""
        return self.directory.plan()

    @cached_property
    def book(self) -> VariantBook:
        """What was found out about each variant before training: its cost, its checks, its text."""
        return VariantBook.read(self.directory.variants_file)

    @property
    def metric(self) -> Metric:
        """The metric that the verdicts are about."""
        return self.plan.judged

    @cached_property
    def results(self) -> dict[str, list[TrialResult]]:
        """All planned trials by variant, in the order of the seeds."""
        rows: dict[str, list[TrialResult]] = {name: [] for name in self.plan.variants}
        adapted = {name: facts.adapted for name, facts in self.book.variants.items()}
        for trial in self.plan.trials(adapted=adapted):
            try:
                result = read_trial(self.directory.trial(trial), trial, self.metric, self.split_of(trial))
            except RunError as error:
                result = TrialResult(trial, "pending", str(error))
            reason = self.failures.get((trial.variant, trial.seed))
            if result.status == "pending" and reason is not None:
                result = replace(result, status="failed", reason=reason, problem=Problem.MISSING)
            rows[trial.variant].append(result)
        return rows

    def split_of(self, trial: Trial) -> str:
        """What the evaluation of a trial is called by: its split, and who judges it where that is not its own objective."""
        facts = self.book.variants.get(trial.variant)
        return self.plan.split_of(trial) + (facts.judge if facts else "")

    @cached_property
    def values(self) -> StudyValues:
        """What verdicts, table and notes are computed from: gathered from the trials, or read where these were deleted."""
        if self._trials_deleted:
            return read_values(self.directory.values_file)
        leaks = {name: self.plan.all_looks[0] for name in self.book.variants if self.withheld(name)}
        exploratory = [change.name for change in self.plan.changes if change.exploratory]
        trials, weights = gather_trials(self.results, self.metric, leaks=leaks, exploratory=exploratory)
        variants = {}
        for name, own in trials.items():
            measured = [] if self.withheld(name) else [one.units for one in self.finished(name) if one.units is not None]
            seed_values = np.array([metric_of(units, self.metric) for units in measured])
            variants[name] = VariantValues(
                replace(own, tuning_variance=self._tuning_variance(name, seed_values)),
                seed_values,
                share_spent(self, name),
                mean_logged(self, name, "tokens_per_second"),
                mean_logged(self, name, "tokens"),
                measured_of_trials(self, name),
                () if name == BASE else conditions_of_trials(self, name),
            )
        evaluations = [one.evaluation for rows in self.results.values() for one in rows if one.evaluation is not None]
        return StudyValues(
            variants,
            weights,
            any(one.unit in AUTOCORRELATED_UNITS for one in evaluations),
            tuple(notes_of_trials(self)),
            remarks_of_trials(self),
            next((one.groups for one in evaluations if one.groups is not None and len(one.groups) == len(weights)), None),
        )

    @property
    def _trials_deleted(self) -> bool:
        return self.directory.values_file.is_file() and not self.directory.has_trials()

    def withheld(self, variant: str) -> bool:
        """Whether a variant's results are hidden: a check found a leak, and ``allow_leaks`` is off."""
        facts = self.book.variants.get(variant)
        return facts is not None and facts.leak is not None and not self.plan.allow_leaks

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """One per change, in the plan's order."""
        values = self.values
        base, *changes = (self._annotated(values.variants[name].trials) for name in self.plan.variants)
        rules = replace(self.plan.rules(), command=self._fresh_seeds(), remarks=values.remarks)
        return decide(
            base,
            changes,
            rules,
            weights=values.weights,
            labels=self.plan.seed_numbers,
            blocks=values.blocks,
            groups=values.groups,
            base_labels=self.plan.bank,
        )

    def _annotated(self, trials: Trials) -> Trials:
        """With the description of its leak, earlier studies of it, and what else differs from the baseline."""
        facts = self.book.variants.get(trials.name)
        found = replace(
            trials,
            problems=_separate_step_differences(trials.problems, facts),
            leak=facts.cheats.rstrip(".") if facts else "",
            leak_kind=facts.leak_kind if facts else "",
            earlier=self.earlier.get(trials.name, Earlier()),
            conditions=() if trials.name == BASE else tuple(conditions_of(self, trials.name)),
        )
        missed = unequal(self.plan.equal, self.costs(BASE), self.costs(trials.name))
        if not missed:
            return found
        problems = {**dict.fromkeys(range(trials.seeds), Problem.UNEQUAL), **found.problems}
        return replace(found, problems=problems, unequal=joined([one.text for one in missed]))

    @cached_property
    def earlier(self) -> dict[str, Earlier]:
        """By change, earlier studies of it, copied from the ledger when this one began."""
        return self.directory.read_earlier()

    def attempts(self) -> list[Attempt]:
        """This study's entries in the ledger, without changes that were not run or that leak: nobody saw a result of them."""
        verdicts = {one.variant: one for one in self.verdicts}
        found = attempts_of(self.plan, self.book, str(self.folder), verdicts, self.values)
        return [one for one in found if not self.withheld(one.name)]

    def _tuning_variance(self, variant: str, seed_values: Floats) -> float:
        """The variance that selecting its settings adds to a variant's mean; 0 without tuning."""
        if self.plan.tune is None:
            return 0.0
        if not self.directory.has_trials("tuning") and self.directory.values_file.is_file():  # the tuning trials were deleted
            stored = read_values(self.directory.values_file).trials
            return stored[variant].tuning_variance if variant in stored else 0.0
        noise = float(seed_values.var(ddof=1)) if len(seed_values) > 1 else None
        return tuning_variance(self.tuning_values[variant], lower_is_better=self.metric.lower_is_better, noise=noise)

    @cached_property
    def tuning_results(self) -> dict[str, list[list[TrialResult]]]:
        """By variant and setting, the tuning trials that measured something, also those that failed."""
        found: dict[str, list[list[TrialResult]]] = {
            name: [[] for _ in self.plan.tuning_points(name)] for name in self.plan.variants
        }
        for trial in self.plan.tuning_trials({name: facts.matched for name, facts in self.book.variants.items()}):
            with suppress(RunError):
                result = read_trial(self.directory.trial(trial), trial, self.metric, self.split_of(trial))
                found[trial.variant][trial.point].append(result)
        return found

    @cached_property
    def tuning_values(self) -> dict[str, Floats]:
        """By variant, the metric of every tuning trial, [setting, seed]; NaN where there is none, or where it failed."""
        seeds = self.plan.tuning_seeds
        grids = {name: np.full((len(points), len(seeds)), np.nan) for name, points in self.tuning_results.items()}
        for name, points in self.tuning_results.items():
            for point, results in enumerate(points):
                for one in results:
                    if one.units is not None and one.problem is None:  # a setting with a failed run could not be chosen
                        grids[name][point, seeds.index(one.trial.seed)] = metric_of(one.units, self.metric)
        return grids

    @cached_property
    def tuning_table(self) -> list[dict[str, Any]]:
        """Every setting that was tried: its variant and keys, the metric over the tuning seeds, whether it was chosen, and how
        many of its runs failed, by reason. Failed runs count in the metric: a table that hid them would not be the grid."""
        rows = []
        for name, points in self.tuning_results.items() if self.directory.has_trials("tuning") else ():
            chosen = self.book.variants[name].tuned if name in self.book.variants else None
            for point, results in zip(self.plan.tuning_points(name), points):
                values = np.array([metric_of(one.units, self.metric) for one in results if one.units is not None])
                measured = over_seeds(values[np.isfinite(values)]).within(self.metric.bounds).to_dict()
                failed = dict(Counter(str(one.problem.value) for one in results if one.problem is not None))
                rows.append(
                    {"variant": name, "set": point, self.metric.name: measured, "chosen": point == chosen, "failed": failed}
                )
        return rows

    def tuning_cells(self) -> list[list[Cell]]:
        """The table of the settings that were tried, with its header."""
        header: list[Cell] = ["variant", *self.tuning_table[0]["set"], self.metric.name, ""] if self.tuning_table else []
        rows: list[list[Cell]] = [
            [
                row["variant"],
                *map(str, row["set"].values()),
                _estimate(row[self.metric.name]),
                "chosen"
                if row["chosen"]
                else ", ".join(
                    f"{reason} in {count} of {len(self.plan.tuning_seeds)}" for reason, count in row["failed"].items()
                ),
            ]
            for row in self.tuning_table
        ]
        return [header, *rows] if rows else []

    def _fresh_seeds(self) -> str:
        """The command for a study of the same changes on fresh seeds, which are analysed with these."""
        first = max(*self.plan.seed_numbers, *self.plan.bank) + 1
        name = re.sub(r"-seeds-\d+$", "", str(self.folder))
        words = ["glassformer", "compare", str(self.directory.plan_file), *self.plugin_words(), "--first-seed", str(first)]
        return f"{shlex.join(words)} --seeds {{seeds}} --out {shlex.quote(f'{name}-seeds-{first}')}"

    @property
    def text(self) -> str:
        """A checksum of the documents it is judged on; its folder's name before they were inspected."""
        return self.book.variants[BASE].documents if BASE in self.book.variants else self.folder.name

    def plugin_words(self) -> list[str]:
        """``--plugin FILE`` for each plugin of the study."""
        return [word for plugin in self.book.plugins for word in ("--plugin", plugin["file"])]

    def verdict(self, variant: str) -> Verdict:
        """The verdict on one change."""
        for verdict in self.verdicts:
            if verdict.variant == variant:
                return verdict
        raise UnknownName("the study", variant, [verdict.variant for verdict in self.verdicts])

    def runs(self, variant: str = BASE) -> list[Run]:
        """The finished runs of a variant, by seed."""
        from glassformer.run import load

        if variant not in self.results:
            raise UnknownName("the study", variant, self.results)
        return [load(one.run.root) for one in self.finished(variant)]

    def finished(self, variant: str) -> list[TrialResult]:
        """The trials of a variant that have finished, by seed."""
        return [result for result in self.results[variant] if result.status == "finished"]

    def seed_values(self, variant: str) -> Floats:
        """The metric of each finished trial, over the whole set; empty for a variant whose results are withheld."""
        return self.values.variants[variant].seed_values

    @cached_property
    def table(self) -> list[dict[str, Any]]:
        """One row per variant, the baseline first: result and cost."""
        words = {BASE: "", **{verdict.variant: verdict.verdict for verdict in self.verdicts}}
        rows = []
        for name in self.plan.variants:
            seeds, failed = len(self.seed_values(name)), len(self.values.variants[name].trials.problems)
            if not self._trials_deleted:  # those of a variant that leaks are counted, too
                seeds, failed = len(self.finished(name)), sum(one.problem is not None for one in self.results[name])
            rows.append(
                {
                    "variant": name,
                    "verdict": words[name],
                    "seeds": seeds,
                    "failed": failed,
                    self.metric.name: self._mean_with_interval(name).to_dict(),
                    "difference": Estimate(0.0).to_dict() if name == BASE else self.verdict(name).difference.to_dict(),
                    **self.costs(name),
                }
            )
        return rows

    def costs(self, variant: str) -> dict[str, Any]:
        """What one run of a variant really cost: tokens as its batches had them, FLOPs of as many, memory as its steps took it
        (before they have run: as it is estimated), learned numbers that are no parameters; None where not known."""
        facts, own = self.book.variants.get(variant), self.values.variants[variant]
        rate, measured = own.tokens_per_second, own.measured
        if facts is None:
            return {**dict.fromkeys(COSTS), "tokens_per_second": rate}
        planned = own.spent * facts.tokens
        tokens = own.tokens or planned
        flops = own.spent * facts.flops * (tokens / planned if planned else 1.0)
        all_measured = all("memory_bytes" in one.measured for one in self.values.variants.values())
        costs = (
            facts.parameters + round(measured.get("learned_outside", 0)),
            round(flops * measured.get("flops_growth", 1.0)),
            round(measured["memory_bytes"] if all_measured else facts.memory_bytes),
            round(tokens),
            rate,
            tokens / rate if rate else None,
        )
        return dict(zip(COSTS, costs))

    def _mean_with_interval(self, variant: str) -> Estimate:
        if self.withheld(variant):
            return Estimate(None, reason=why_withheld(self.book.variants[variant]))
        return over_seeds(self.seed_values(variant)).within(self.metric.bounds)

    @cached_property
    def words_before(self) -> dict[str, str]:
        """The words of a study that was first judged by other rules, by change; from results.json."""
        if not self.directory.results_file.is_file():
            return {}
        try:
            document = read_json(self.directory.results_file)
            if document.get("rules", 1) == RULES:
                return dict(document.get("words_before", {}))
            return {one["variant"]: one["verdict"] for one in document["verdicts"]}
        except (RunError, KeyError, TypeError, AttributeError):  # damaged: it is derived and will be rewritten
            return {}

    @cached_property
    def ruler(self) -> Ruler | None:
        """The baseline at several numbers of steps: changes that set nothing but training.steps, else its own curve."""
        facts, metric = self.book.variants.get(BASE), self.metric
        if facts is None or self._trials_deleted or self.withheld(BASE):
            return None
        others = {one.set[STEPS]: one.name for one in self.plan.changes if {*one.set} == {STEPS}}
        names = dict(sorted({facts.steps: BASE, **others}.items()))
        seeds = min(len(self.seed_values(name)) for name in names.values())
        if others and seeds > 1:
            values = np.stack([self.seed_values(name)[:seeds] for name in names.values()], axis=1)
            return Ruler(tuple(names), values, facts.steps, metric.lower_is_better)
        logs = [MetricsLog(one.run.metrics_file).read() for one in self.finished(BASE)]
        curves = [{one["step"]: float(one[metric.recorded]) for one in log if metric.recorded in one} for log in logs]
        return curve_ruler(curves, facts.steps, lower_is_better=metric.lower_is_better)

    @cached_property
    def worth(self) -> list[StepsWorth]:
        """What each decided difference is worth in steps of the baseline; empty without a ruler."""
        if self.ruler is None:
            return []
        sign, found = -1.0 if self.metric.lower_is_better else 1.0, []
        for one in self.verdicts:
            ends = (one.difference.value, one.difference.low, one.difference.high)
            if one.verdict not in ("better", "worse") or None in ends or {*self.plan.own_settings(one.variant)} == {STEPS}:
                continue
            value, *bounds = (sign * float(end) for end in ends if end is not None)
            gain = Estimate(value, min(bounds), max(bounds), one.difference.n)
            own, base = (self.values.variants[name].tokens_per_second for name in (one.variant, BASE))
            found.append(steps_worth(one.variant, gain, self.ruler, own / base if own and base else None))
        return found

    @cached_property
    def notes(self) -> list[str]:
        """Caveats about the table."""
        now = {one.variant: one.verdict for one in self.verdicts}
        before = [(name, word) for name, word in self.words_before.items() if now.get(name, word) != word]
        return [*(f"By the rules before, {name} was {word}; it is {now[name]} now." for name, word in before), *notes_of(self)]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: verdicts, table, notes, plan."""
        return {
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "study": str(self.folder),
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "margin": self.plan.same_within,
            "table": self.table,
            "notes": self.notes,
            "worth": [one.to_dict() for one in self.worth],
            "failures": [{"variant": name, "seed": seed, "reason": why} for (name, seed), why in self.failures.items()],
            "plan": self.plan.to_dict(),
            **({"tuning": self.tuning_table} if self.tuning_table else {}),
            "rules": RULES,
            **({"words_before": self.words_before} if self.words_before else {}),
        }

    def write(self) -> None:
        """Writes results.json and values.json, and updates the ledger."""
        write_json(self.directory.results_file, {"schema": StudyDirectory.SCHEMA, **self.to_dict()})
        write_values(self.directory.values_file, self.values, metric=self.metric.name)
        if BASE in self.book.variants:
            ledger_of(self.plan, self.book).record(self.attempts())

    def report(self, out: Path | str | None = None) -> Path:
        """Writes the self-contained page to ``out`` and returns its path; by default to the study's folder, with Markdown."""
        from glassformer.study.reporting.study_report import write_report

        return write_report(self, out)

    def rows_by_seed(self) -> list[dict[str, Any]]:
        """One row per finished trial: variant, seed, the judged metric; without variants whose results are withheld."""
        rows = []
        for name in self.plan.variants:
            seeds = [one.trial.seed for one in self.finished(name) if one.units is not None]
            values = self.seed_values(name)
            known = seeds if len(seeds) == len(values) else self.plan.seed_numbers
            rows += [{"variant": name, "seed": seed, self.metric.name: float(value)} for seed, value in zip(known, values)]
        return rows

    def frame(self, by: Literal["variant", "seed"] = "variant") -> pandas.DataFrame:
        """The table as a pandas DataFrame: ``by`` variant, with the ends of each interval, or by seed, a row per trial."""
        return frame_of(self.rows_by_seed() if by == "seed" else self.flat_table())

    def flat_table(self) -> list[dict[str, Any]]:
        """``table`` with plain cells: an estimate becomes its value, ``_low`` and ``_high``."""
        rows = []
        for row in self.table:
            cells: dict[str, Any] = {}
            for key, value in row.items():
                if isinstance(value, dict):
                    cells |= {key: value["value"], f"{key}_low": value["low"], f"{key}_high": value["high"]}
                else:
                    cells[key] = value
            rows.append(cells)
        return rows

    def figure(self, what: str = "differences") -> Figure:
        """A figure of matplotlib. ``what``: ``differences`` from the baseline, learning ``curves`` with bands over seeds,
        ``cost`` against quality, or the ``values`` of every seed."""
        from glassformer.study.reporting.study_report import study_figure

        return study_figure(self, what)

    def header(self) -> list[str]:
        """The names of the columns of ``cells``."""
        return ["variant", "verdict", "seeds", self.metric.name, "difference", "parameters", "FLOPs", "memory", "tokens/s"]

    def cells(self) -> list[list[Cell]]:
        """The formatted table: four significant digits, intervals in brackets."""
        return [
            [
                row["variant"],
                row["verdict"] or "baseline",
                self._seeds_cell(row),
                _estimate(row[self.metric.name]),
                None if row["variant"] == BASE else _estimate(row["difference"]),
                row["parameters"],
                None if row["flops"] is None else f"{row['flops']:.3g}",
                None if row["memory_bytes"] is None else f"{row['memory_bytes'] / 1e6:,.3g} MB",
                None if row["tokens_per_second"] is None else round(row["tokens_per_second"]),
            ]
            for row in self.table
        ]

    def _seeds_cell(self, row: Mapping[str, Any]) -> Cell:
        """Values are means over this study's own seeds; a difference is over those of earlier studies, too."""
        evidence = None if row["variant"] == BASE else self.verdict(row["variant"]).evidence
        own: int = row["seeds"]
        return own if evidence is None or not evidence.earlier_seeds else f"{own} + {evidence.earlier_seeds} earlier"

    def __str__(self) -> str:
        rows = [self.header(), *([cell_text(cell) for cell in row] for row in self.cells())]
        tried = [[cell_text(cell) for cell in row] for row in self.tuning_cells()]
        settings = ["Settings tried:", text_table(tried), ""] if tried else []
        words = [*self.sentences(), *(one.sentence for one in self.worth)]
        return "\n".join([*settings, text_table(rows), "", *words, *(["", *self.notes] if self.notes else [])])

    def sentences(self) -> list[str]:
        """The verdicts, a line each."""
        return [str(one) for one in self.verdicts]

    def __repr__(self) -> str:
        words = ", ".join(f"{verdict.variant}: {verdict.verdict}" for verdict in self.verdicts)
        return f"Study({str(self.folder)!r}, {words})"

    def _repr_html_(self) -> str:
        from glassformer.pages.html import fragment
        from glassformer.study.reporting.study_report import differences, in_short

        return fragment([*in_short(self), *differences(self)])


def over_seeds(values: Sequence[float] | Floats) -> Estimate:
    """The mean over seeds with its 95 % confidence interval, for other seeds on the same text."""
    return mean(np.asarray(values)) if len(values) else Estimate(None, reason="no trial has finished")


def _estimate(document: dict[str, Any]) -> Estimate | None:
    return None if document["value"] is None else Estimate.from_dict(document)


def _separate_step_differences(problems: Mapping[int, Problem], facts: Facts | None) -> dict[int, Problem]:
    """Replaces LEAK by STEP_DIFFERS where the step only differs numerically; the trial's files do not distinguish them."""
    if facts is None or not facts.step_differs:
        return dict(problems)
    return {at: Problem.STEP_DIFFERS if what is Problem.LEAK else what for at, what in problems.items()}


def _failures(directory: StudyDirectory) -> dict[tuple[str, int], str]:
    """Failures of the last session, from results.json."""
    if not directory.results_file.is_file():
        return {}
    try:
        return {(one["variant"], one["seed"]): one["reason"] for one in read_json(directory.results_file)["failures"]}
    except (RunError, KeyError, TypeError):  # damaged: results.json is derived and will be rewritten
        return {}
