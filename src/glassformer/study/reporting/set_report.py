"""The same changes on several data sets -> one page: overall verdicts, a table by set, and the verdicts of each study.

The studies keep their own pages, which this one refers to. Imports no torch.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from glassformer.figures.intervals import IntervalRow, difference_intervals
from glassformer.foundation.files import write_atomically
from glassformer.pages.html import render
from glassformer.pages.markdown import render_markdown
from glassformer.pages.page import (
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
from glassformer.study.directory import StudyDirectory
from glassformer.study.inference.meta_analysis import Overall
from glassformer.study.set_study import SetStudy

OVER_ALL = "over all sets"


def write_report(sets: SetStudy, out: Path | str | None = None) -> Path:
    """Writes the page and, unless ``out`` is given, the Markdown beside it; returns the page's path."""
    directory = StudyDirectory(sets.folder)
    file = Path(out) if out is not None else directory.report_file
    write_atomically(file, render(sets_page(sets)))
    if out is None:
        directory.figures.mkdir(exist_ok=True)
        write_atomically(directory.markdown_file, render_markdown(sets_page(sets), figures=directory.figures))
    return file


def sets_page(sets: SetStudy) -> Page:
    count = len(sets.verdicts)
    changes = "1 change" if count == 1 else f"{count} changes"
    return Page(
        title=f"Study {sets.folder.resolve().name}",
        subtitle=f"{changes} on {len(sets.studies)} sets, {sets.metric.name} by set and over all",
        sections=[*_overall(sets), *_differences(sets), *_table(sets), *_each_set(sets), *_how_to_rerun(sets)],
        footer="Made by Glassformer. How a verdict is made: docs/statistics.md.",
    )


def _overall(sets: SetStudy) -> list[Block]:
    items = [Verdict(one.variant, one.verdict, one.sentence.removeprefix(one.variant).lstrip()) for one in sets.verdicts]
    about = (
        "The sets are treated as a random sample of sets, so the overall interval generalises to new ones (random effects, as "
        "many degrees of freedom as sets less one). The sign of a difference may vary between sets."
    )
    return [Heading("Verdicts over all sets"), Verdicts(items), Paragraph(about)]


def _rows(sets: SetStudy, change: Overall) -> list[IntervalRow]:
    """One row per set, with a dot per seed, and a last row over all sets."""
    rows = []
    for name, study in sets.studies.items():
        one = study.verdict(change.variant)
        dots = one.evidence.seed_differences if one.evidence else ()
        rows.append(IntervalRow(name, one.verdict, one.difference.value, one.difference.low, one.difference.high, dots))
    whole = change.difference
    return [*rows, IntervalRow(OVER_ALL, change.verdict, whole.value, whole.low, whole.high)]


def _differences(sets: SetStudy) -> list[Block]:
    blocks: list[Block] = [Heading("Differences")]
    for change in sets.verdicts:
        rows, metric = _rows(sets, change), sets.metric
        picture = difference_intervals(
            rows,
            margin=sets.first.plan.same_within,
            unit=metric.unit,
            lower_is_better=metric.lower_is_better,
            title=change.variant,
        )
        words = ", ".join(f"{row.label} {row.word}" for row in rows)
        caption = f"{change.variant} minus baseline. Bars hold 95 %; every seed is a dot; the grey band is the margin."
        blocks.append(FigureBlock(picture, caption=caption, alt=f"{change.variant} with intervals: {words}."))
    return blocks


def _table(sets: SetStudy) -> list[Block]:
    header = ["change", "set", "verdict", "seeds", f"difference of {sets.metric.name}", "p, corrected"]
    rows: list[list[Cell]] = []
    for change in sets.verdicts:
        for name, study in sets.studies.items():
            one = study.verdict(change.variant)
            p = one.evidence.p_corrected if one.evidence else None
            rows.append([change.variant, name, one.verdict, one.seeds_run, _as_cell(one.difference), p])
        rows.append([change.variant, OVER_ALL, change.verdict, None, _as_cell(change.difference), change.p_corrected])
    note = "p is corrected over the changes, on each set and over all. The line over all counts sets, not seeds."
    return [Heading("Set by set"), Table(header, rows, note=note)]


def _as_cell(estimate: Cell) -> Cell:
    return None if getattr(estimate, "value", None) is None else estimate


def _each_set(sets: SetStudy) -> list[Block]:
    """The verdicts of each study, folded."""
    folds = []
    for name, study in sets.studies.items():
        items = []
        for one in study.verdicts:
            before, after = one.around_name()
            items.append(Verdict(one.variant, one.verdict, after, before))
        page = Paragraph(f"Its own page, with curves and costs: `{Path(name) / study.directory.report_file.name}`.")
        parts: list[Block] = [
            Verdicts(items),
            Table(study.header(), study.cells()),
            *(Paragraph(note) for note in study.notes),
            page,
        ]
        folds.append(Fold(name, parts))
    return [Heading("What each set says"), *folds]


def _how_to_rerun(sets: SetStudy) -> list[Block]:
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
