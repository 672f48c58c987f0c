"""Records -> cells: the word of every row on every text and size, rate curves, what a gain is worth, trends. Imports no torch.

Nothing here is stored: with other records, or another margin, the same functions give other words. The runs of a row are
compared with those of the baseline that the same code trained on the same kind of machine; other results stay beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, takewhile
from typing import Any

import numpy as np

from glassformer.atlas.protocol import BASELINE, Atlas, Row
from glassformer.atlas.records import Records, TrialRecord
from glassformer.foundation.distributions import Floats
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import LOSS
from glassformer.study.planning.power import MORE_DOCUMENTS
from glassformer.study.statistics.corrections import ALPHA
from glassformer.study.statistics.evidence import Problem, Trials
from glassformer.study.statistics.meta_analysis import Overall, over_sets
from glassformer.study.statistics.steps_worth import Ruler, StepsWorth, steps_worth
from glassformer.study.statistics.trends import AtSize, Trend, trends_over_size
from glassformer.study.statistics.verdict import Rules, Verdict, decide

OPEN = "open"
UNTESTABLE = "not testable"
NOTHING = "At this size it changes nothing: its runs have the values of the baseline's."
COPY = "placebo-copy"
"""The baseline on the rows' own seeds, which trends and rulers are paired with where the design is a bank."""
RULERS = {"ruler-half-steps": 0.5, "ruler-fewer-steps": 0.9, "ruler-double-steps": 2.0}
WITHIN = 0.05  # nats of the best rate's loss; a rate inside counts as working
MOST = 0.5  # of the variance of a difference
HALF_STEP = 0.5  # of a doubling: rates are chosen on a grid of factors of the root of two
NEAR = 0.005  # nats above the lowest loss of the curve: half the margin


@dataclass(frozen=True)
class Curve:
    """Losses of one row by learning rate (times the size's), over the tuning seeds; a failed run is NaN."""

    rates: tuple[float, ...]
    losses: tuple[tuple[float, ...], ...]

    @property
    def means(self) -> list[float]:
        return [float(np.mean(own)) for own in self.losses]

    @property
    def best(self) -> float | None:
        """The vertex of a parabola through all runs over log2 of the rate, on a grid of half doublings; rates with a failed run
        are left out. None without a usable rate."""
        usable = [(math.log2(rate), own) for rate, own in zip(self.rates, self.losses) if np.isfinite(own).all()]
        if not usable:
            return None
        x, y = np.array([at for at, own in usable for _ in own]), np.array([loss for _, own in usable for loss in own])
        lowest = min(usable, key=lambda one: float(np.mean(one[1])))[0]
        at = lowest
        if len(usable) > 2:
            curvature, slope, _ = np.polyfit(x, y, 2)
            at = -slope / (2.0 * curvature) if curvature > 0.0 else lowest
        at = min(max(at, usable[0][0]), usable[-1][0])
        return float(f"{2.0 ** (round(at / HALF_STEP) * HALF_STEP):.4g}")

    @property
    def next_rate(self) -> float | None:
        """The rate beyond the edge that the best rate is at; None where it is inside, or runs failed there."""
        best = self.best
        if best is None or len(self.rates) > 4:
            return None
        if best <= self.rates[0] * 1.01:
            return float(f"{self.rates[0] / 2.0:.4g}")
        return float(f"{self.rates[-1] * 2.0:.4g}") if best >= self.rates[-1] * 0.99 else None

    def suits(self, rate: float) -> bool:
        """Whether runs at this rate are at the best one, or so near to it that no others are needed: at most half a doubling
        away, and by the rates that were tried at most ``NEAR`` above the lowest loss."""
        if self.best is None or abs(math.log2(self.best / rate)) > HALF_STEP + 0.01:
            return False
        tried = min(zip(self.rates, self.means), key=lambda one: abs(math.log2(one[0] / rate)))
        return not tried[1] - float(np.nanmin(self.means)) > NEAR

    @property
    def working(self) -> float:
        """Doublings of the rate over which the mean loss stays within ``WITHIN`` of the best, by the rates that were run."""
        means = np.array(self.means)
        inside = [math.log2(rate) for rate, mean in zip(self.rates, means) if mean <= np.nanmin(means) + WITHIN]
        return max(inside) - min(inside) if inside else 0.0

    def to_dict(self) -> dict[str, Any]:
        losses = [[None if math.isnan(loss) else round(loss, 5) for loss in own] for own in self.losses]
        return {"rates": list(self.rates), "losses": losses, "best": self.best, "working_doublings": self.working}


def curve_of(atlas: Atlas, records: Records, row: str, base: str = "modern") -> Curve | None:
    """The rate curve of a row; None before two rates are complete. A rate's losses are those of the machine with most runs of
    it. Runs by earlier code count too, because the curve only chooses a rate."""
    by_rate: dict[float, dict[str, dict[int, float]]] = {}
    for one in records.select(row=row, base=base, area="tuning"):
        by_rate.setdefault(one.job.rate, {}).setdefault(one.machine, {})[one.job.seed] = _loss(one, records)
    found = {rate: max(by_machine.values(), key=len) for rate, by_machine in sorted(by_rate.items())}
    whole = {rate: own for rate, own in found.items() if len(own) >= atlas.protocol.tuning_seeds}
    return Curve(tuple(whole), tuple(tuple(own.values()) for own in whole.values())) if len(whole) > 1 else None


def base_rate(atlas: Atlas, records: Records, base: str = "modern") -> float:
    curve = curve_of(atlas, records, BASELINE, base)
    return curve.best or 1.0 if curve is not None else 1.0


def rate_of(atlas: Atlas, records: Records, row: str, base: str = "modern") -> float:
    """Times the size's rate: the baseline's times the row's factor, where that suits the row or nothing was tuned; else its own
    best rate."""
    usual = float(f"{atlas.row(row).rate * base_rate(atlas, records, base):.4g}")
    curve = None if row == BASELINE else curve_of(atlas, records, row, base)
    return usual if curve is None or curve.best is None or curve.suits(usual) else curve.best


def _loss(one: TrialRecord, records: Records) -> float:
    """The loss over the whole text; NaN for a failed run."""
    if one.values is None or one.problem is not None:
        return math.nan
    weights = np.asarray(records.texts[one.documents]["weights"], dtype=np.float64)
    return float(one.values @ weights / weights.sum())


@dataclass(frozen=True)
class Group:
    """Runs of one row that belong together: the same recipe, rate, code, kind of machine and baseline."""

    row: str
    text: str
    size: str
    base: str
    machine: str
    against: str
    rate: float
    documents: str
    runs: tuple[TrialRecord, ...]
    machines: frozenset[str] = frozenset()
    """Those whose baseline has the same bits (``Records.alike``): rows of all of them are compared with all its runs."""

    @property
    def files(self) -> list[str]:
        return sorted({one.file for one in self.runs})

    @property
    def about(self) -> tuple[object, ...]:
        """What groups must share whose runs are added up, besides their values."""
        return self.against, self.rate, self.documents, self.runs[0].recipe


@dataclass(frozen=True)
class Cell:
    """One row on one text at one size. ``word``: a verdict's, *open* without enough runs, *not testable* if nothing changes."""

    row: Row
    text: str
    size: str
    base: str
    word: str
    verdict: Verdict | None = None
    group: Group | None = None
    losses: Mapping[int, float] = field(default_factory=dict)
    baseline: Floats = field(default_factory=lambda: np.zeros(0))
    rate_note: str = "not tuned"
    curve: Curve | None = None
    worth: StepsWorth | None = None
    trend: Trend | None = None
    parameters: float | None = None
    flops: float | None = None
    speed: float | None = None
    """Parameters, FLOPs of a step and tokens per second, over the baseline's; the last where it was measured."""
    base_rate: float = 1.0
    matched: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        return self.text, self.size, self.base

    @property
    def difference(self) -> Estimate:
        if self.verdict is not None:
            return self.verdict.difference
        return Estimate(None, reason=NOTHING if self.word == UNTESTABLE else "no runs yet")

    @property
    def sentence(self) -> str:
        if self.verdict is not None:
            return self.verdict.sentence
        return NOTHING if self.word == UNTESTABLE else ""

    @property
    def command(self) -> str:
        rate = "" if self.group is None else f" --rate {self.group.rate:g} --base-rate {self.base_rate:g}"
        seeds = f" --seeds {len(self.losses)}" if len(self.losses) > 0 else ""
        base = "" if self.base == "modern" else f" --base {self.base}"
        about = f"--row {self.row.name} --text {self.text} --size {self.size}{base}{rate}{seeds}"
        return f"glassformer atlas run {about} --out cell.jsonl"

    def to_dict(self) -> dict[str, Any]:
        group, verdict = self.group, self.verdict
        return {
            "row": self.row.name,
            "text": self.text,
            "size": self.size,
            "base": self.base,
            "word": self.word,
            "difference": self.difference.to_dict(),
            "sentence": self.sentence,
            "headline": None if self.verdict is None else self.verdict.headline,
            "p_corrected": None if verdict is None or verdict.evidence is None else verdict.evidence.p_corrected,
            "seeds": {str(seed): None if math.isnan(loss) else round(loss, 5) for seed, loss in self.losses.items()},
            "baseline": [round(float(one), 5) for one in self.baseline if not math.isnan(one)],
            "rate": None if group is None else group.rate,
            "rate_note": self.rate_note,
            "rate_curve": None if self.curve is None else self.curve.to_dict(),
            "worth": None if self.worth is None else self.worth.to_dict(),
            "trend": None if self.trend is None else self.trend.to_dict(),
            "parameters": self.parameters,
            "flops": self.flops,
            "speed": self.speed,
            "matched": dict(self.matched),
            "command": self.command,
            "files": [] if group is None else group.files,
            "machine": "" if group is None else group.machine,
            "others": list(self.others),
        }


def cells(atlas: Atlas, records: Records, margin: float | None = None) -> list[Cell]:
    """Every planned cell, and those that were run besides, in the order of the rows."""
    return _Table(atlas, records, margin or atlas.protocol.margin).cells()


Place = tuple[str, str, str]
"""Text, size and base."""


def undecided(atlas: Atlas, records: Records, place: Place) -> dict[str, tuple[Group, int]]:
    """The rows of a place that more seeds may decide, their runs, and at how many seeds they were judged. Left out are those
    where most of the variance is the documents', and too much for any number of seeds."""
    table = _Table(atlas, records, atlas.protocol.margin)
    found: dict[str, tuple[Group, int]] = {}
    for cell in table.of_place(table.rows_of(place), place):
        evidence = None if cell.verdict is None else cell.verdict.evidence
        if (cell.row.role, cell.word) != ("row", "not decided") or evidence is None or cell.group is None:
            continue
        if evidence.seeds_needed.reason != MORE_DOCUMENTS or evidence.effects.document_share < MOST:
            found[cell.row.name] = cell.group, evidence.seeds
    return found


@dataclass(frozen=True)
class _Table:
    """Makes the cells of some records, judged with a margin."""

    atlas: Atlas
    records: Records
    margin: float

    def cells(self) -> list[Cell]:
        found: dict[tuple[str, str, str, str], Cell] = {}
        for place in sorted({key[1:] for key in self.there}):
            found |= {(one.row.name, *place): one for one in self.of_place(self.rows_of(place), place)}
        trends = self.trends(found)
        return [replace(cell, trend=trends.get((cell.text, cell.row.name))) for cell in found.values()]

    @cached_property
    def there(self) -> set[tuple[str, str, str, str]]:
        """Row, text, size and base of every cell that is planned or was run."""
        return {key for key in self.groups if key[0] in self.atlas.rows} | {*self.atlas.cells()}

    def rows_of(self, place: Place) -> list[Row]:
        return [row for name, row in self.atlas.rows.items() if (name, *place) in self.there]

    @cached_property
    def groups(self) -> dict[tuple[str, str, str, str], list[Group]]:
        """By row, text, size and base: the groups of runs, the largest first."""
        sorted_runs: dict[tuple[Any, ...], list[TrialRecord]] = {}
        for one in self.records.trials.values():
            if one.job.area == "trial":
                place = (one.job.row, one.job.text, one.job.size, one.job.base)
                key = (*place, one.machine, one.against, one.job.rate, one.recipe)
                sorted_runs.setdefault(key, []).append(one)
        found: dict[tuple[str, str, str, str], list[Group]] = {}
        for key, runs in sorted_runs.items():
            by_seed = tuple(sorted(runs, key=lambda one: one.job.seed))
            documents = next((one.documents for one in by_seed if one.documents), "")
            found.setdefault(key[:4], []).append(Group(*key[:7], documents, by_seed))
        for (row, text, size, base), own in found.items():
            own.sort(key=lambda one: -len(one.runs))
            if row == BASELINE or len({one.machine for one in own}) > 1:
                own[:] = self.added_up(row, own, (text, size, base))
        return found

    def added_up(self, row: str, groups: Sequence[Group], place: Place) -> list[Group]:
        """Groups of one place, where code that trains baseline and row alike has added runs to those of other code."""
        found: dict[tuple[object, ...], Group] = {}
        for one in groups:
            alike = self.records.alike(one.machine, *place) & self.records.alike(one.machine, *place, row)
            found.setdefault((alike, *one.about), _with_alike(one, groups, alike))
        return sorted(found.values(), key=lambda one: -len(one.runs))

    def of_place(self, rows: Sequence[Row], place: Place) -> list[Cell]:
        """The cells of one text, size and base: families are judged one by one, against one group of baselines."""
        _, size, base = place
        ground = self.ground(rows, place)
        chosen = {row.name: self.group_for(row, ground, self.groups.get((row.name, *place), [])) for row in rows}
        verdicts: dict[str, Verdict] = {}
        for family in dict.fromkeys(row.family for row in rows):
            verdicts |= self.judge([row for row in rows if row.family == family], chosen, ground, place)
        ruler = self.ruler(chosen, ground, size)
        made = []
        for row in rows:
            group, verdict = chosen[row.name], verdicts.get(row.name)
            own_seeds = ground if self.atlas.protocol.sizes[size].design == "paired" else chosen.get(COPY)
            if nothing := row.role == "row" and _changes_nothing(group, own_seeds):
                verdict = None
            facts = self.facts(row.name, place, group or ground)
            worth = None
            if ruler is not None and verdict is not None and verdict.difference.value is not None and row.role != "ruler":
                worth = steps_worth(row.title, _negative(verdict.difference), ruler, self.speed(row.name, place, group))
            made.append(
                Cell(
                    row,
                    *place,
                    word=UNTESTABLE if nothing else OPEN if verdict is None else verdict.verdict,
                    verdict=verdict,
                    group=group,
                    losses={} if group is None else self.losses(group),
                    baseline=np.zeros(0) if ground is None else np.array([*self.losses(ground).values()]),
                    rate_note=self.rate_note(row, group, base),
                    curve=curve_of(self.atlas, self.records, row.name, base),
                    worth=worth,
                    parameters=facts.get("parameters"),
                    flops=facts.get("flops"),
                    speed=self.speed(row.name, place, group or ground),
                    base_rate=1.0 if ground is None else ground.rate,
                    matched=facts.get("matched", {}),
                    others=tuple(self.others(row, place, group)),
                )
            )
        return made

    def losses(self, group: Group) -> dict[int, float]:
        return {one.job.seed: _loss(one, self.records) for one in group.runs}

    def weights(self, documents: str) -> Floats:
        return np.asarray(self.records.texts[documents]["weights"], dtype=np.float64)

    def variant(self, row: str, place: Place, machines: Iterable[str]) -> dict[str, Any]:
        """Cost and checks of a row, by the first of these machines that has them."""
        known = (self.records.variants.get((row, *place[1:], name)) for name in machines)
        return next((one for one in known if one is not None), {})

    def ground(self, rows: Sequence[Row], place: Place) -> Group | None:
        """What all rows of a place are compared with: of the groups of baselines that are large enough the one beside which
        most rows were run. Where other code has other values, that is the code which has come further."""
        protocol, groups = self.atlas.protocol, self.groups.get((BASELINE, *place), [])
        if len(groups) < 2:
            return next(iter(groups), None)
        needed = protocol.looks[0] if protocol.sizes[place[1]].design == "paired" else protocol.bank
        wanted = base_rate(self.atlas, self.records, place[2])

        def standing(one: Group) -> tuple[int, int, int, bool]:
            beside = (self.group_for(row, one, self.groups.get((row.name, *place), [])) for row in rows)
            rows_beside = sum(group is not None for group in beside)
            return min(len(one.runs), needed), rows_beside, len(one.runs), one.rate == wanted

        return max(groups, key=standing)

    def group_for(self, row: Row, ground: Group | None, groups: Sequence[Group]) -> Group | None:
        """The largest group that was run against this baseline."""
        if ground is None:
            return None
        own = [one for one in groups if one.machine in ground.machines and one.against == ground.against]
        found = _largest(own, lambda: rate_of(self.atlas, self.records, row.name, ground.base), self.atlas.protocol.looks[0])
        return None if found is None else replace(found, machines=ground.machines)

    def judge(
        self, rows: Sequence[Row], chosen: Mapping[str, Group | None], ground: Group | None, place: Place
    ) -> dict[str, Verdict]:
        """The verdicts of a family; rows that were not run count in its correction. A row is judged at the looks that its runs
        have reached, of a pair both; runs after a seed that is missing wait for it."""
        if ground is None:
            return {}
        protocol, weights = self.atlas.protocol, self.weights(ground.documents)
        looks, paired = tuple(protocol.looks), protocol.sizes[place[1]].design == "paired"

        def of_runs(name: str, group: Group | None) -> Trials:
            known = {} if group is None else {one.job.seed: one for one in group.runs}
            first = self.atlas.seeds(name, place[1])[0]
            runs = [known[seed] for seed in takewhile(known.__contains__, count(first))]
            values = [np.full(len(weights), np.nan) if one.values is None else one.values for one in runs]
            problems = {at: Problem(one.problem) for at, one in enumerate(runs) if one.problem is not None}
            return Trials(name, np.array(values).reshape(len(runs), len(weights)), problems)

        base, trials = of_runs(BASELINE, ground), []
        if base.seeds < (looks[0] if paired else protocol.bank):
            return {}
        for row in rows:
            group, about = chosen[row.name], (self.variant(row.name, place, [name]) for name in ground.machines)
            if leak := next((one["leak"] for one in about if one.get("leak")), None):
                values, problems = np.full((looks[0], len(weights)), np.nan), dict.fromkeys(range(looks[0]), Problem.LEAK)
                trials.append(Trials(row.name, values, problems, leak=str(leak)))
            else:
                trials.append(of_runs(row.name, group))
        rules = Rules(looks, LOSS, self.margin, by_pairs=paired)
        base_labels = self.atlas.seeds(BASELINE, place[1], base.seeds)
        judged = decide(base, trials, rules, weights=weights, base_labels=base_labels)
        ran = {one.name for one in trials if one.seeds >= looks[0] or one.problems}
        return {one.variant: one for one in judged if one.variant in ran}

    def ruler(self, chosen: Mapping[str, Group | None], ground: Group | None, size: str) -> Ruler | None:
        """The baseline at several numbers of steps, by seed; None before two of them have run."""
        about = self.atlas.protocol.sizes[size]
        points = {1.0: ground if about.design == "paired" else chosen.get(COPY)}
        points |= {factor: chosen.get(name) for name, factor in RULERS.items()}
        losses = {factor: self.losses(group) for factor, group in points.items() if group is not None}
        if 1.0 not in losses or len(losses) < 2:
            return None
        shared = sorted(set.intersection(*(set(own) for own in losses.values())))
        values = np.array([[losses[factor][seed] for factor in sorted(losses)] for seed in shared])
        usable = len(shared) > 1 and np.isfinite(values).all()
        return Ruler(tuple(round(factor * about.steps) for factor in sorted(losses)), values, about.steps) if usable else None

    def facts(self, row: str, place: Place, group: Group | None) -> dict[str, Any]:
        """Cost over the baseline's, and the matched width; by the code that made the runs of a group, or code alike."""
        for machine in () if group is None else sorted(group.machines, key=lambda one: one != group.machine):
            own, other = (self.variant(name, place, [machine]) for name in (row, BASELINE))
            if own and other:
                keys = (("parameters", "parameters"), ("flops", "step_flops"))
                return {**{key: own[of] / other[of] for key, of in keys if other.get(of)}, "matched": own.get("matched", {})}
        return {}

    def speed(self, row: str, place: Place, group: Group | None) -> float | None:
        """Tokens per second over the baseline's, measured on this kind of machine by whatever code. What runs say of themselves
        does not serve: they share the machine with more or fewer others."""
        kind = None if group is None else self.records.kind(group.machine)
        for (*about, machine), value in reversed(self.records.speeds.items()):
            if about == [row, *place[1:]] and self.records.kind(machine) == kind:
                return value
        return None

    def rate_note(self, row: Row, group: Group | None, base: str) -> str:
        """Whether the rate of a cell was tuned, in words."""
        curve = curve_of(self.atlas, self.records, row.name, base)
        if row.role != "row":
            return "the baseline's rate"
        if curve is None or curve.best is None:
            return "not tuned: the baseline's rate" + (f" times {row.rate:g}" if row.rate != 1.0 else "")
        edge = "; at the edge of the rates tried" if curve.next_rate is not None else ""
        if group is not None and not curve.suits(group.rate) and group.rate != curve.best:
            return f"tuned rate {curve.best:g} not run yet; this cell has rate {group.rate:g}{edge}"
        near = "" if group is None or group.rate == curve.best else f"; this cell has rate {group.rate:g}, which is near it"
        return (
            f"tuned: best at {curve.best:g} times the size's rate, over {len(curve.rates)} rates with 4 seeds each{near}{edge}"
        )

    def others(self, row: Row, place: Place, group: Group | None) -> Iterable[str]:
        """Results of the same cell by other code, machines or rates, a sentence each; they stay beside the first."""
        baselines = self.groups.get((BASELINE, *place), [])
        for other in self.groups.get((row.name, *place), []):
            grounds = (one for one in baselines if other.machine in one.machines and one.against == other.against)
            ground = next(grounds, None)
            if group is None or other.runs is group.runs or ground is None:
                continue
            found = self.judge([row], {row.name: other}, ground, place).get(row.name)
            word = OPEN if found is None else found.verdict
            about = f"rate {other.rate:g} and {len(other.runs)} seeds, machine {other.machine} ({', '.join(other.files)})"
            yield f"{word} with {about}"

    def trends(self, found: Mapping[tuple[str, str, str, str], Cell]) -> dict[tuple[str, str], Trend]:
        """By text and row, where two sizes or more have runs."""
        changes: dict[str, dict[str, list[AtSize]]] = {}
        documents: dict[str, str] = {}
        for (name, *_), cell in found.items():
            if cell.group is not None:
                documents.setdefault(cell.text, cell.group.documents)
            if cell.base != "modern" or cell.group is None or cell.verdict is None:
                continue
            if cell.curve is not None and not cell.curve.suits(cell.group.rate) and cell.group.rate != cell.curve.best:
                continue  # what changes with size may be how far its rate is from the best one
            paired = self.atlas.protocol.sizes[cell.size].design == "paired"
            reference = self.values_of(BASELINE if paired else COPY, cell.group)
            runs = [one for one in cell.group.runs if one.values is not None and one.job.seed in reference]
            d = [one.values - reference[one.job.seed] for one in runs if one.values is not None]
            parameters = self.variant(BASELINE, cell.place, cell.group.machines).get("parameters")
            if d and parameters and cell.word != "invalid" and cell.row.role == "row":
                changes.setdefault(cell.text, {}).setdefault(name, []).append(AtSize(parameters, np.array(d)))
        trends: dict[tuple[str, str], Trend] = {}
        for text, rows in changes.items():
            apart = self.atlas.protocol.texts[text].apart
            own = {name: sizes for name, sizes in rows.items() if len(sizes) > 1 and not apart}
            weights = self.weights(documents[text])
            trends |= {(text, one.variant): one for one in trends_over_size(own, LOSS, self.margin, weights=weights)}
        return trends

    def values_of(self, row: str, like: Group) -> dict[int, Floats]:
        """By seed, of another row's runs that belong with a group."""
        runs = self.records.select(row=row, text=like.text, size=like.size, base=like.base, area="trial")
        same = (one for one in runs if one.machine in like.machines and one.against == like.against)
        return {one.job.seed: one.values for one in same if one.values is not None}


def _with_alike(group: Group, groups: Sequence[Group], machines: frozenset[str]) -> Group:
    """A group with the further seeds that other code has run, where the bits are the same."""
    same = [one for one in groups if one.machine in machines and one.about == group.about]
    by_seed = {one.job.seed: one for own in (*same, group) for one in own.runs}
    return replace(group, runs=tuple(by_seed[seed] for seed in sorted(by_seed)), machines=machines)


def _largest(groups: Sequence[Group], rate: Callable[[], float], enough: int) -> Group | None:
    """The group with most runs; of several with a first look, the one with the protocol's rate."""
    if len(groups) < 2:
        return next(iter(groups), None)
    wanted = rate()
    return max(groups, key=lambda one: (min(len(one.runs), enough), one.rate == wanted, len(one.runs)))


def _changes_nothing(group: Group | None, baseline: Group | None) -> bool:
    """Whether a row's runs are the baseline's, seed by seed: a window as long as the text, as many keys as heads."""
    if group is None or baseline is None:
        return False
    known = {one.job.seed: one.values for one in baseline.runs}
    pairs = [(one.values, known[one.job.seed]) for one in group.runs if one.job.seed in known]
    return len(pairs) > 1 and all(own is not None and other is not None and np.array_equal(own, other) for own, other in pairs)


def _negative(difference: Estimate) -> Estimate:
    """The gain of a difference in loss."""
    value, low, high = (None if end is None else -end for end in (difference.value, difference.high, difference.low))
    return Estimate(value, low, high, difference.n)


def over_texts(atlas: Atlas, found: Sequence[Cell], margin: float | None = None) -> dict[str, Overall]:
    """By row, one verdict over all texts at the smallest size, where every text has one; some texts stay apart."""
    size, families = atlas.protocol.tuning_size, dict[str, list[str]]()
    own_size = [
        cell for cell in found if (cell.size, cell.base) == (size, "modern") and not atlas.protocol.texts[cell.text].apart
    ]
    verdicts = {(cell.text, cell.row.name): cell.verdict for cell in own_size if cell.verdict is not None}
    texts = sorted({text for text, _ in verdicts})
    for name, row in atlas.rows.items():
        if len(texts) > 1 and all((text, name) in verdicts for text in texts):
            families.setdefault(row.family, []).append(name)
    overall: dict[str, Overall] = {}
    for names in families.values():
        own = {text: [one for name in names if (one := verdicts[text, name]) is not None] for text in texts}
        overall |= {one.variant: one for one in over_sets(own, LOSS, margin or atlas.protocol.margin)}
    return overall


def expected_false_words(found: Iterable[Cell]) -> float:
    """How many cells would be called better or worse by chance if no change did anything: alpha for each family."""
    return ALPHA * len({(cell.row.family, cell.text, cell.size, cell.base) for cell in found})
