"""A study, or the same changes on several sets or at several sizes -> an HTML page and Markdown.

A study: verdicts, differences, curves, cost against quality, settings, command to rerun it. Several sets: verdicts over all
sets, a table by set, and the verdicts of each study, which keeps its own page. Reads the files of studies and trials; imports
no torch.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from glassformer.figures.curves import Curve, Points, learning_curves
from glassformer.figures.intervals import (
    CostPoint,
    IntervalRow,
    SizeLine,
    cost_against_quality,
    difference_intervals,
    gains_by_size,
    value_intervals,
)
from glassformer.foundation.config import flatten
from glassformer.foundation.errors import UnknownName, UsageError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import write_atomically
from glassformer.foundation.metrics import TRAIN
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.pages.html import render
from glassformer.pages.page import (
    Banner,
    Block,
    Cell,
    FigureBlock,
    Fold,
    Heading,
    KeyValues,
    Listing,
    Page,
    Paragraph,
    Table,
    Verdict,
    Verdicts,
)
from glassformer.pages.to_markdown import render_markdown
from glassformer.runs.records import MetricsLog
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.design import run_noise
from glassformer.study.planning.plan import BASE
from glassformer.study.reporting.study_notes import EARLY
from glassformer.study.reporting.wording import LEAK_FOUND, number, why_withheld
from glassformer.study.several_studies import SetStudy, SeveralStudies, SizeStudy
from glassformer.study.statistics.verdict import Verdict as StudyVerdict
from glassformer.study.study import Study

COSTS = {"flops": "FLOPs of one run", "parameters": "parameters", "seconds": "seconds of one run"}
"""Candidates for the cost axis; the first in which the variants differ is plotted."""
OVER_ALL = "over all sets"
FOOTER = "Made by Glassformer. How a verdict is made: docs/statistics.md."


def write_report(study: Study | SeveralStudies, out: Path | str | None = None) -> Path:
    """Writes the page and, unless ``out`` is given, the Markdown beside it; returns the page's path."""
    directory = StudyDirectory(study.folder)
    if isinstance(study, SizeStudy | SetStudy):
        page = sizes_page(study) if isinstance(study, SizeStudy) else sets_page(study)
    else:
        assert isinstance(study, Study)
        page = study_page(study)
    file = Path(out) if out is not None else directory.report_file
    write_atomically(file, render(page))
    if out is None:
        directory.figures.mkdir(exist_ok=True)
        write_atomically(directory.markdown_file, render_markdown(page, figures=directory.figures))
    return file


def study_page(study: Study) -> Page:
    plan = study.plan
    about = [Paragraph(plan.about)] if plan.about else []
    parts = (*((_verdicts, differences) if plan.changes else ()), _tuning, _cost, _curves, _settings, _how_to_rerun)
    seeds = max(len(study.seed_values(name)) for name in plan.variants)
    base = plan.base if isinstance(plan.base, str) else "a recipe"
    return Page(
        title=f"Study {study.folder.resolve().name}",
        subtitle=f"{_changes(len(plan.changes))} of {base}, {_seeds(seeds)}, {study.metric.name} on {plan.split} text",
        sections=[*about, *(block for part in parts for block in part(study))],
        footer=FOOTER,
    )


def sets_page(sets: SetStudy) -> Page:
    return Page(
        title=f"Study {sets.folder.resolve().name}",
        subtitle=f"{_changes(len(sets.verdicts))} on {len(sets.studies)} sets, {sets.metric.name} by set and over all",
        sections=[
            *overall(sets),
            *_differences_by_set(sets),
            *_table_by_set(sets),
            Heading("Each set"),
            *each_in_short(sets),
            *_how_to_rerun_sets(sets),
        ],
        footer=FOOTER,
    )


def _changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count} changes"


def _seeds(count: int) -> str:
    return "no seed has run" if count == 0 else "1 seed" if count == 1 else f"{count} seeds"


def _verdicts(study: Study) -> list[Block]:
    """The verdicts, and what else differs."""
    differing: list[list[Cell]] = [
        [one.variant, found.text, found.base, found.own] for one in study.verdicts for found in one.conditions
    ]
    beside: list[Block] = [
        Paragraph("What else differs from the baseline, the worst first:"),
        Table(["change", "compared with", "baseline", "change's own"], differing),
    ]
    early = [note for note in study.notes if note.startswith(EARLY)]
    return [
        Heading("Verdicts"),
        *(Banner(note) for note in early),
        _verdict_list(study),
        *(beside if differing else []),
        *(Paragraph(one.sentence) for one in study.worth),
        *(Paragraph(note) for note in study.notes if note not in early),
    ]


def _verdict_list(study: Study) -> Verdicts:
    return Verdicts([Verdict.of(one.variant, one.verdict, one.sentence) for one in study.verdicts])


def _interval_row(label: str, one: StudyVerdict) -> IntervalRow:
    """A difference with its interval, and a dot per seed."""
    dots = one.evidence.seed_differences if one.evidence else ()
    return IntervalRow(label, one.verdict, one.difference.value, one.difference.low, one.difference.high, dots)


def study_figure(study: Study, what: str) -> Figure:
    """One figure of a study by name, for a paper or a logger."""
    if what not in FIGURES:
        raise UnknownName("the figures of a study", what, FIGURES)
    found = FIGURES[what](study)
    if found is None:
        raise UsageError(f"{study.folder} has nothing for the figure {what!r} yet; finish it first.", reason="no-figure")
    return found


def _difference_figure(study: Study) -> Figure:
    metric, rows = study.metric, [_interval_row(one.variant, one) for one in study.verdicts]
    return difference_intervals(rows, margin=study.plan.same_within, unit=metric.unit, lower_is_better=metric.lower_is_better)


def _value_figure(study: Study) -> Figure | None:
    """The metric of every seed, and the mean of each variant with its interval."""
    metric, rows = study.metric, list[IntervalRow]()
    for row in study.table:
        mean, dots = row[metric.name], tuple(float(value) for value in study.seed_values(row["variant"]))
        rows.append(IntervalRow(row["variant"], row["verdict"], mean["value"], mean["low"], mean["high"], dots))
    return value_intervals(rows, unit=f"{metric.name} ({metric.unit})") if any(row.dots for row in rows) else None


def _curve_figure(study: Study) -> Figure | None:
    curves = [curve for name in study.plan.variants if (curve := variant_curve(study, name)) is not None]
    return learning_curves(curves, unit=f"{study.metric.name} ({study.metric.unit})") if curves else None


def _cost_figure(study: Study) -> Figure | None:
    """Against the first cost in which the variants differ."""
    for key, name in COSTS.items():
        points = cost_points(study, key)
        if len({point.cost for point in points}) > 1:
            return cost_against_quality(points, cost=name, quality=f"{study.metric.name} ({study.metric.unit})")
    return None


FIGURES = {"differences": _difference_figure, "values": _value_figure, "curves": _curve_figure, "cost": _cost_figure}


def differences(study: Study) -> list[Block]:
    caption = (
        "Variant minus baseline, with 95 % intervals (corrected like p); every seed is a dot; the grey band is the margin."
    )
    words = ", ".join(f"{one.variant} {one.verdict}" for one in study.verdicts)
    picture = _difference_figure(study)
    return [Heading("Differences"), FigureBlock(picture, caption=caption, alt=f"Differences with intervals: {words}.")]


def _tuning(study: Study) -> list[Block]:
    """Every setting that was tried, and the chosen one."""
    header, *rows = study.tuning_cells() or [[]]
    note = "Chosen on these seeds, by validation; the figures further down are of other seeds."
    return [Heading("Settings tried"), Table([str(cell) for cell in header], rows, note=note)] if rows else []


def _cost(study: Study) -> list[Block]:
    variants = study.book.variants
    sound = [at for at, row in enumerate(study.table) if (facts := variants.get(row["variant"])) is None or facts.leak is None]
    note = (
        "The interval of a variant's own figure is over seeds, on this text; the interval of a difference is for other text, "
        "too. Memory is the most that a training step held at once; tokens/s depends on the machine and on what else ran on it."
    )
    noise = run_noise(study.seed_values(BASE))
    if noise is not None:
        note += f" Runs of the baseline vary by {number(noise)} ({study.metric.unit}, standard deviation over seeds)."
    blocks: list[Block] = [
        Heading("Cost and quality of each variant"),
        Table(study.header(), study.cells(), note=note, tainted=_taint(study), sound=frozenset(sound)),
    ]
    if (picture := _cost_figure(study)) is not None:
        caption = "Cost against quality: the mean over seeds with its 95 % interval."
        blocks.append(FigureBlock(picture, caption=caption, alt=caption, tainted=_taint(study)))
    return blocks


def cost_points(study: Study, key: str) -> list[CostPoint]:
    """Cost (column ``key`` of the table) and quality of every variant that has both."""
    points = []
    for row in study.table:
        reached = row[study.metric.name]
        if row[key] and reached["value"] is not None:
            points.append(CostPoint(row["variant"], row[key], reached["value"], reached["low"], reached["high"]))
    return points


def _taint(study: Study) -> str | None:
    """The warning over the table if it shows leaking runs (``allow_leaks``)."""
    shown = {name: facts for name, facts in study.book.variants.items() if facts.leak is not None and study.finished(name)}
    whys = {name: why_withheld(facts) for name, facts in shown.items()}
    leaking = [name for name, why in whys.items() if why == LEAK_FOUND]
    sentences = [f"{name}: {why}." for name, why in whys.items() if why != LEAK_FOUND]
    if leaking:
        what = f"{LEAK_FOUND}; these figures mean nothing and show what one would have believed."
        sentences.insert(0, f"{' and '.join(leaking)}: {what}")
    return " ".join(sentences) or None


def _curves(study: Study) -> list[Block]:
    drawn = _curve_figure(study)
    if drawn is None:
        return []
    caption = (
        f"{study.metric.name.capitalize()} on training and validation text: the mean over seeds, with a band from the lowest "
        "to the highest. Lines without marks are measured at every step."
    )
    picture = FigureBlock(drawn, caption=caption, alt=caption, tainted=_taint(study))
    return [Heading("Learning curves"), picture]


def variant_curve(study: Study, name: str) -> Curve | None:
    """The judged metric of all finished seeds, at the steps they share; of training as well, where it was recorded."""
    records = [MetricsLog(one.run.metrics_file).read() for one in study.finished(name)]
    validation = _shared_points(records, study.metric.recorded)
    measured = _shared_points(records, TRAIN + study.metric.name)
    train = measured or _shared_points(records, study.metric.name)
    return None if validation is None else Curve(name, train, validation, measured is not None)


def _shared_points(trials: list[list[dict[str, Any]]], key: str) -> Points | None:
    """The values of a key in every trial, at the steps that all have."""
    runs = [{record["step"]: float(record[key]) for record in records if key in record} for records in trials]
    steps = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    return Points.of(steps, [[run[step] for step in steps] for run in runs]) if steps else None


def _settings(study: Study) -> list[Block]:
    """The keys in which the variants' recipes differ."""
    known = {name: flatten(one.run.read_recipe()) for name in study.plan.variants for one in study.finished(name)[:1]}
    keys = dict.fromkeys(key for flat in known.values() for key in flat if key.split(".")[0] not in ("about", "result", "seed"))
    differing = [key for key in keys if len({repr(flat.get(key)) for flat in known.values()}) > 1]
    rows: list[list[Cell]] = [[name, *(_as_cell(flat.get(key)) for key in differing)] for name, flat in known.items()]
    facts: dict[str, Cell] = {
        "metric": f"{study.metric.name}, {study.metric.unit}",
        "margin": f"{study.plan.same_within:g}",
        "looks": ", ".join(map(str, study.plan.all_looks)) + " seeds",
        "first seed": study.plan.first_seed,
        "design": "paired by seed"
        if study.plan.design == "paired"
        else f"against {len(study.plan.bank)} stored runs of the baseline",
    }
    if study.plan.match is not None:
        facts["matched to the baseline in"] = study.plan.match
    if study.plan.tune is not None:
        facts["tuned"] = f"{len(study.plan.tuning_points(BASE))} settings each"
    return [Heading("What differs"), Table(["variant", *differing], rows), KeyValues(facts)]


def _as_cell(value: Any) -> Cell:
    return value if isinstance(value, str | int | float) or value is None else str(value)


def _how_to_rerun(study: Study) -> list[Block]:
    environment = next((one.environment for one in study.finished(BASE)), {})
    words = ["glassformer", "compare", str(study.directory.plan_file), *study.plugin_words(), "--out", f"{study.folder}-again"]
    command = shlex.join(words)
    data = environment.get("data", {})
    facts = {key: environment.get(key) for key in ("glassformer", "python", "torch", "device_name", "precision", "platform")}
    facts |= {"data": data.get("source"), "sha256 of the data": data.get("sha256")}
    return [
        Heading("How to run it again"),
        Listing(command),
        KeyValues(facts, caption="The same build and device give the same numbers, on one core or on a cluster."),
        Fold("The plan", [Listing(dump_yaml(study.plan.to_dict()))]),
    ]


# -- several sets -----------------------------------------------------------------------------------------------------------


def overall(sets: SetStudy) -> list[Block]:
    items = [Verdict.of(one.variant, one.verdict, one.sentence) for one in sets.verdicts]
    about = (
        "The texts are treated as a random sample of texts, so the overall interval is for new texts, too (a t test over the "
        "texts' mean differences, each with the same weight)."
    )
    return [Heading("Verdicts over all sets"), Verdicts(items), Paragraph(about)]


def _differences_by_set(sets: SetStudy) -> list[Block]:
    blocks: list[Block] = [Heading("Differences")]
    for change in sets.verdicts:
        whole, metric = change.difference, sets.metric
        rows = [_interval_row(name, study.verdict(change.variant)) for name, study in sets.studies.items()]
        rows.append(IntervalRow(OVER_ALL, change.verdict, whole.value, whole.low, whole.high))
        picture = difference_intervals(
            rows,
            margin=sets.first.plan.same_within,
            unit=metric.unit,
            lower_is_better=metric.lower_is_better,
            title=change.variant,
        )
        words = ", ".join(f"{row.label} {row.word}" for row in rows)
        caption = f"{change.variant} minus baseline, with 95 % intervals; every seed is a dot; the grey band is the margin."
        blocks.append(FigureBlock(picture, caption=caption, alt=f"{change.variant} with intervals: {words}."))
    return blocks


def _table_by_set(sets: SetStudy) -> list[Block]:
    header = ["change", "set", "verdict", "seeds", f"difference of {sets.metric.name}", "p, corrected"]
    rows: list[list[Cell]] = []
    for change in sets.verdicts:
        for name, study in sets.studies.items():
            one = study.verdict(change.variant)
            p = one.evidence.p_corrected if one.evidence else None
            rows.append([change.variant, name, one.verdict, one.seeds_run, _known(one.difference), p])
        rows.append([change.variant, OVER_ALL, change.verdict, None, _known(change.difference), change.p_corrected])
    note = "p is corrected over the changes, on each set and over all. The line over all sets counts sets, not seeds."
    return [Heading("Set by set"), Table(header, rows, note=note)]


def _known(estimate: Estimate) -> Estimate | None:
    return None if estimate.value is None else estimate


def in_short(study: Study) -> list[Block]:
    """Verdicts, table and notes."""
    return [_verdict_list(study), Table(study.header(), study.cells()), *(Paragraph(note) for note in study.notes)]


def each_in_short(several: SeveralStudies) -> list[Block]:
    """Each study, folded."""
    page = "Its own page, with curves and costs: `glassformer report {}`."
    return [
        Fold(name, [*in_short(study), Paragraph(page.format(shlex.quote(str(study.folder))))])
        for name, study in several.studies.items()
    ]


def _how_to_rerun_sets(sets: SetStudy) -> list[Block]:
    commands = [
        shlex.join(["glassformer", "compare", str(study.directory.plan_file), "--out", f"{study.folder}-again"])
        for study in sets.studies.values()
    ]
    facts: dict[str, Cell] = {
        "metric": f"{sets.metric.name}, {sets.metric.unit}",
        "margin": sets.first.plan.same_within,
        "seeds": ", ".join(f"{name}: {study.plan.all_looks[-1]}" for name, study in sets.studies.items()),
    }
    return [Heading("How to run it again"), Listing("\n".join(commands)), KeyValues(facts)]


# -- several sizes ----------------------------------------------------------------------------------------------------------


def sizes_page(sizes: SizeStudy) -> Page:
    trends = [Verdict.of(one.variant, one.word, one.sentence) for one in sizes.trends]
    rows: list[list[Cell]] = [list(row) for row in sizes.rows()]
    worth = [one.sentence for own in sizes.worth.values() for one in own]
    about = (
        "A gain is the baseline's figure minus the change's (or the reverse where higher is better). The trend is its "
        "least-squares slope over the logarithm of the baseline's parameters, formed within each seed and document. "
        "Its interval is for other seeds and documents at these sizes, and says nothing about larger models."
    )
    return Page(
        title=f"Study {sizes.folder.resolve().name}",
        subtitle=f"{_changes(len(sizes.trends))} at {len(sizes.studies)} sizes, {sizes.metric.name} by size, and the trend",
        sections=[
            *([Paragraph(sizes.first.plan.about)] if sizes.first.plan.about else []),
            Heading("Trends over size"),
            Verdicts(trends),
            Paragraph(f"Learning rate: {sizes.rate}."),
            size_figure(sizes),
            Paragraph(about),
            *(Paragraph(sentence) for sentence in sizes.law_sentences()),
            Heading("Size by size"),
            Table(sizes.header(), rows),
            *(Paragraph(sentence) for sentence in worth),
            Heading("Each size"),
            *each_in_short(sizes),
        ],
        footer=FOOTER,
    )


def size_figure(sizes: SizeStudy, title: str = "") -> FigureBlock:
    """The gain of each change at each size with its interval, and the fitted line."""
    sign, lines = -1.0 if sizes.metric.lower_is_better else 1.0, []
    for trend in sizes.trends:
        points = []
        for name, study in sizes.studies.items():
            found = study.verdict(trend.variant).difference
            value, low, high = (None if end is None else sign * end for end in (found.value, found.low, found.high))
            points.append((float(sizes.parameters[name]), value, low, high))
        lines.append(SizeLine(trend.variant, trend.word, tuple(points), trend.per_decade.value))
    picture = gains_by_size(lines, margin=sizes.first.plan.same_within, unit=sizes.metric.unit, title=title)
    words = ", ".join(f"{one.variant} {one.word}" for one in sizes.trends)
    caption = "The gain of each change by the baseline's parameters, with 95 % intervals; lines are the fitted trends."
    return FigureBlock(picture, caption=caption, alt=f"Gains by size: {words}.")
