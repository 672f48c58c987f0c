"""A study -> a table for a paper (LaTeX, CSV, Markdown); runs or a study -> the file that says how to repeat them. No torch."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal

from glassformer.foundation.config import fingerprint
from glassformer.pages.page import Cell, Page, Table, cell_text
from glassformer.pages.to_markdown import render_markdown
from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import csv_text
from glassformer.study.several_studies import SetStudy
from glassformer.study.study import Study

COLUMNS = 6
"""Columns of a printed table: variant, verdict, seeds, metric, difference, parameters. CSV has all."""
NOT_IN_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
}


def table_text(study: Study | SetStudy, kind: Literal["latex", "csv", "markdown"]) -> str:
    """The table of a study; of several sets, with a column for the set."""
    studies = {"": study} if isinstance(study, Study) else dict(study.studies)
    sets = {} if isinstance(study, Study) else {"set": None}
    if kind == "csv":
        return csv_text([{**dict.fromkeys(sets, name), **row} for name, one in studies.items() for row in one.flat_table()])
    first = next(iter(studies.values()))
    header = [*sets, *first.header()[:COLUMNS]]
    labelled = [(name, row[:COLUMNS]) for name, one in studies.items() for row in one.cells()]
    rows: list[list[Cell]] = [[name, *row] if sets else row for name, row in labelled]
    note = (
        f"{first.metric.name.capitalize()} in {first.metric.unit} on {first.plan.split} data: mean over seeds and difference "
        f"from the baseline, with 95 % intervals; margin {first.plan.same_within:g}."
    )
    if kind == "markdown":
        page = render_markdown(Page(title="", subtitle="", sections=[Table(header, rows, note=note)]))
        return page.partition("\n\n")[2]
    numeric = Table(header, rows).numeric_columns()
    texts = [[cell_text(cell).replace("-", "−" if is_number else "-") for cell, is_number in zip(row, numeric)] for row in rows]
    lines = [" & ".join(map(_latex, row)) + r" \\" for row in [header, *texts]]
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            rf"\begin{{tabular}}{{{''.join('r' if one else 'l' for one in numeric)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            rf"% \caption{{{_latex(note)}}}",
            "",
        ]
    )


def _latex(text: str) -> str:
    return re.sub("|".join(map(re.escape, NOT_IN_LATEX)), lambda found: NOT_IN_LATEX[found[0]], text)


def reproducibility(found: Study | SetStudy | Sequence[RunDirectory]) -> dict[str, Any]:
    """What a reader needs to repeat runs or a study: commands, recipes or plan, seeds, data checksums, machines, versions."""
    if isinstance(found, SetStudy):
        return {"schema": 1, "sets": {name: reproducibility(one) for name, one in found.studies.items()}}
    if isinstance(found, Study):
        runs = [one.run for name in found.plan.variants for one in found.finished(name)]
        words = ["glassformer", "compare", found.directory.plan_file.name, *found.plugin_words()]
        study = {
            "commands": [shlex.join(words)],
            "plan": found.plan.to_dict(),
            "metric": {"name": found.metric.name, "unit": found.metric.unit, "margin": found.plan.same_within},
            "verdicts": [
                {"variant": one.variant, "verdict": one.verdict, "difference": one.difference.to_dict()}
                for one in found.verdicts
            ],
            "values": found.rows_by_seed(),
        }
        return {"schema": 1, **study, **_made_with(runs)}
    recipes = {run.root.name: run.read_recipe() for run in found}
    commands = [f"glassformer train {run.root.name}.yaml" for run in found]
    return {"schema": 1, "commands": commands, "recipes": recipes, **_made_with(found)}


def _made_with(runs: Sequence[RunDirectory]) -> dict[str, Any]:
    """Seeds, and each distinct machine, build and data set once."""
    known = [(run.read_recipe().get("seed", 0), run.read_environment()) for run in runs]
    machine = ("glassformer", "code_sha256", "python", "torch", "platform", "cpu", "device", "device_name", "precision")
    machines = [{key: one[key] for key in (*machine, "threads", "deterministic", "plugins") if key in one} for _, one in known]
    data = [{key: value for key, value in one.get("data", {}).items() if key not in ("places", "reading")} for _, one in known]
    return {"seeds": sorted({seed for seed, _ in known}), "environments": _distinct(machines), "data": _distinct(data)}


def _distinct(values: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({fingerprint(value): value for value in values if value}.values())
