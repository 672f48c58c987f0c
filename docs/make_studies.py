"""Finished studies -> docs/measurements/study-NAME.json, and these -> the tables inside docs/studies.md.

    python docs/make_studies.py STUDY...   # takes the figures of finished studies into docs/measurements, then writes the page
    python docs/make_studies.py            # writes the page's tables anew
    python docs/make_studies.py --again    # judges every published study by today's rules; its first words stay beside the new
    python bench/seed_noise.py STUDY... --out docs/measurements/seed-noise.json   # the last table; then the line above

The words around the tables are written by hand; what stands between ``<!-- study NAME -->`` and ``<!-- end -->`` is not.
Does not train anything, and loads no torch.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from glassformer.figures.save import to_bytes
from glassformer.foundation.errors import GlassformerError, RunError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json, write_json
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory
from glassformer.study.history.ledger import Attempt, Earlier
from glassformer.study.planning.plan import BASE, StudyPlan
from glassformer.study.reporting.study_report import size_figure
from glassformer.study.several_studies import SizeStudy
from glassformer.study.statistics.corrections import FIRST_STUDY
from glassformer.study.statistics.verdict import decide
from glassformer.study.study import Study
from glassformer.study.values_file import read_values

PAGE = Path(__file__).with_name("studies.md")
MEASUREMENTS = Path(__file__).with_name("measurements")
PICTURE = "pictures/{name}.svg"
LARGEST_VALUES = 2_000_000  # bytes
SUMMARY = re.compile(r"(<!-- summary -->\n).*?(<!-- end -->)", re.DOTALL)
CHANGED = re.compile(r"(<!-- changed -->\n).*?(<!-- end -->)", re.DOTALL)
NOISE = re.compile(r"(<!-- noise -->\n).*?(<!-- end -->)", re.DOTALL)
ENCODER_FOLDER = re.compile(r'("model.folder": ")/[^"]*/([^"/]+)')
PLACE = re.compile(r"(<!-- study (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SECOND = re.compile(r"(?:Second study|study 2) of this change on this text, after \S+ \((?P<word>[a-z ]+)\)")
KEPT = ("variant", "verdict", "difference", "p_corrected", "seeds", "seeds_needed", "correlation", "sentence", "exploratory")
WORDS = ("variant", "verdict", "p_corrected")


def compact(study: Study) -> dict[str, Any]:
    """What the page and a reader need of a finished study."""
    trials = [one.trial for rows in study.results.values() for one in rows if one.status == "finished"]
    if not trials:
        raise RunError(f"{study.folder} has no finished trial.")
    folders = [RunDirectory(study.directory.trial(trial)) for trial in trials]
    environment = folders[0].read_environment()
    last = max(folder.state_file.stat().st_mtime for folder in folders)
    table = {row["variant"]: row for row in study.table}
    return {
        "study": study.folder.name,
        "date": datetime.fromtimestamp(last, tz=UTC).date().isoformat(),
        "machine": {key: environment.get(key) for key in ("device_name", "cpu", "precision", "threads", "torch", "python")},
        "metric": study.metric.name,
        "unit": study.metric.unit,
        "margin": study.plan.same_within,
        "looks": list(study.plan.all_looks),
        "base": {"seeds": table[BASE]["seeds"], "value": table[BASE][study.metric.name]},
        "verdicts": [
            {
                **{key: value for key, value in one.to_dict().items() if key in KEPT},
                "value": table[one.variant][study.metric.name],
            }
            for one in study.verdicts
        ],
        "notes": study.notes,
        "plan": study.plan.to_dict(),
    }


def table(document: dict[str, Any]) -> str:
    """One study as Markdown: where it ran, one row per change, the verdicts as sentences."""
    machine = document["machine"]
    looks = " or ".join(map(str, document["looks"]))
    where = f"{machine['device_name'] or machine['cpu']}, {machine['precision']}, torch {machine['torch']}"
    base = f"{document['metric']} {shown(document['base']['value'])}"
    if document["verdicts"]:
        lines = [
            f"{document['date']}, {where}; {looks} seeds, margin {document['margin']} {document['unit']}. Baseline: {base}.",
            "",
            f"| change | verdict | difference, {document['unit']} | corrected p | seeds |",
            "|---|---|---:|---:|---:|",
        ]
    else:  # a search: its best setting, trained anew
        lines = [f"{document['date']}, {where}; {looks} seeds. **What it found: {base}.**"]
    for one in document["verdicts"]:
        p = "" if one.get("p_corrected") is None else f"{one['p_corrected']:.2g}"
        word = f"**{one['verdict']}**" + (" (exploratory)" if one.get("exploratory") else "")
        difference = shown(one.get("difference"))
        if one["verdict"] == "invalid" and difference:
            difference = f"({difference})"  # what one would have believed
        lines.append(f"| {one['variant']} | {word} | {difference} | {p} | {one.get('seeds', '')} |")
    sentences = [f"- {one['sentence']}" for one in document["verdicts"]]
    notes = [f"- Note: {note}" for note in document["notes"]]
    lines += ["", "<details><summary>In sentences</summary>", "", *sentences, *notes, "", "</details>"]
    return "\n".join(lines) + "\n"


def compact_sizes(sizes: SizeStudy) -> dict[str, Any]:
    """What the page and a reader need of a finished study at several sizes."""
    whole = sizes.to_dict()
    first = compact(sizes.first)
    return {
        **{key: first[key] for key in ("date", "machine", "metric", "unit", "margin", "looks")},
        "study": sizes.folder.name,
        **{key: whole[key] for key in ("trends", "rate", "parameters", "power_laws", "worth")},
        "verdicts": [],
        "sizes": {name: compact(study) for name, study in sizes.studies.items()},
    }


def table_of_sizes(document: dict[str, Any]) -> str:
    """A study at several sizes as Markdown: verdict, difference and worth in steps by size, and the trends."""
    machine = document["machine"]
    where = f"{machine['device_name'] or machine['cpu']}, {machine['precision']}, torch {machine['torch']}"
    lines = [
        f"{document['date']}, {where}; {' or '.join(map(str, document['looks']))} seeds a size, margin {document['margin']} "
        f"{document['unit']}. Learning rate: {document['rate']}.",
        "",
        f"| change | parameters | verdict | difference, {document['unit']} | worth in steps | at equal time |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for trend in document["trends"]:
        for size, parameters in document["parameters"].items():
            one = next(one for one in document["sizes"][size]["verdicts"] if one["variant"] == trend["variant"])
            worth = next((w for w in document["worth"][size] if w["variant"] == trend["variant"]), {})
            steps = _share(worth.get("more_steps")) or worth.get("short", "")
            clock = _share(worth.get("at_equal_time"))
            cells = f"**{one['verdict']}** | {shown(one.get('difference'))} | {steps} | {clock}"
            lines.append(f"| {trend['variant']} | {parameters:,} | {cells} |")
    lines += ["", *(f"- **{one['trend']}**: {one['sentence']}" for one in document["trends"]), ""]
    lines += [f"![The gain of each change by size]({PICTURE.format(name=document['study'])})"]
    return "\n".join(lines) + "\n"


def _share(estimate: dict[str, Any] | None) -> str:
    """.12 -> +12 % [+5, +20]."""
    if estimate is None or estimate["value"] is None:
        return ""
    ends = "" if estimate["low"] is None else f" [{100 * estimate['low']:+.0f}, {100 * estimate['high']:+.0f}]"
    return f"{100 * estimate['value']:+.0f} %{ends}"


def shown(estimate: dict[str, Any] | None) -> str:
    """A number with its interval, in as many digits as the interval justifies."""
    return "" if estimate is None or estimate["value"] is None else str(Estimate.from_dict(estimate))


def page(text: str, documents: dict[str, dict[str, Any]]) -> str:
    """The page with the table of every study in its place; a study not yet measured says so."""

    def filled(place: re.Match[str]) -> str:
        document = documents.get(place["name"])
        body = "Not measured yet.\n" if document is None else (table_of_sizes if "trends" in document else table)(document)
        return f"{place[1]}{body}{place[3]}"

    return PLACE.sub(filled, text)


def summary(text: str, documents: dict[str, dict[str, Any]]) -> str:
    """The page with one row per study at its beginning: what was found in each, by word."""
    words = ("better", "worse", "same", "not decided", "invalid")
    lines = [f"| study | {' | '.join(words)} |", f"|---|{'---|' * len(words)}"]
    for name in (place["name"] for place in PLACE.finditer(text)):
        document = documents.get(name)
        rows = [(one["variant"], one["verdict"]) for one in document["verdicts"]] if document else []
        for size, study in (document or {}).get("sizes", {}).items():
            rows += [(f"{one['variant']} at {size}", one["verdict"]) for one in study["verdicts"]]
        cells = [" · ".join(variant for variant, its in rows if its == word) for word in words]
        if document and not rows:
            cells[0] = f"a search: {document['metric']} {shown(document['base']['value'])}"
        lines.append(f"| {name} | {' | '.join(cells if document else ['not measured yet', '', '', '', ''])} |")
    return SUMMARY.sub(lambda place: f"{place[1]}{chr(10).join(lines)}\n{place[2]}", text)


def noise(text: str) -> str:
    """The page with the table of seed noise in its place."""
    spec = importlib.util.spec_from_file_location("seed_noise", Path(__file__).parents[1] / "bench" / "seed_noise.py")
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    file = MEASUREMENTS / "seed-noise.json"
    body = bench.text_of(read_json(file)["studies"]) + "\n" if file.is_file() else "Not measured yet.\n"
    return NOISE.sub(lambda place: f"{place[1]}{body}{place[2]}", text)


def measured() -> dict[str, dict[str, Any]]:
    files = [*sorted(MEASUREMENTS.glob("study-*.json")), *sorted(MEASUREMENTS.glob("sizes-*.json"))]
    return {file.stem.split("-", 1)[1]: read_json(file) for file in files}


def keep_values(folder: Path, file: Path) -> None:
    """Keeps what the verdicts rest on, by seed and document, so that they can be judged again; too large ones are left out."""
    values = StudyDirectory(folder).values_file
    if values.is_file() and values.stat().st_size <= LARGEST_VALUES:
        file.write_text(without_own_paths(values.read_text(encoding="utf-8")), encoding="utf-8")


def without_own_paths(text: str) -> str:
    """A record as JSON without folders of the machine it was made on."""
    data = os.environ.get("GLASSFORMER_DATA")
    text = text if not data else text.replace(str(Path(data).absolute()), "$GLASSFORMER_DATA")
    return ENCODER_FOLDER.sub(r"\1FOLDER/\2", text)


def judge_again(document: dict[str, Any], file: Path) -> dict[str, Any]:
    """A published study by today's rules, from its values; a second study of a question has what the first left of alpha."""
    values, plan = read_values(file), StudyPlan.parse(document["plan"])
    published = document.get("judged_before") or [{key: one.get(key) for key in WORDS} for one in document["verdicts"]]
    old = {one["variant"]: one for one in document["verdicts"]}
    before = {name: one.get("after") or SECOND.search(one["sentence"]) for name, one in old.items()}
    after = {name: found if isinstance(found, str | None) else found["word"] for name, found in before.items()}
    base, *changes = (values.trials[name] for name in plan.variants)
    rules = replace(plan.rules(), remarks=values.remarks)
    judged = decide(
        base,
        [replace(one, earlier=_earlier(after[one.name], plan)) for one in changes],
        rules,
        weights=values.weights,
        labels=plan.seed_numbers,
        blocks=values.blocks,
        groups=values.groups,
        base_labels=plan.bank,
    )
    rows = []
    for one in judged:
        new = {key: value for key, value in one.to_dict().items() if key in KEPT}
        rows.append(
            {**new, "value": old[one.variant].get("value"), **({"after": after[one.variant]} if after[one.variant] else {})}
        )
    return {**document, "verdicts": rows, "judged_before": published}


def _earlier(word: str | None, plan: StudyPlan) -> Earlier:
    """Of a change that was studied once before on this text, by code that is not known; an invalid study spends nothing."""
    if word in (None, "invalid"):
        return Earlier()
    spent = ((plan.all_looks[-1], FIRST_STUDY),)
    return Earlier((Attempt("the first study", "", "q", "", "", plan.same_within, (), {}, {}, str(word), spent),), "q", "other")


def changed(text: str, documents: dict[str, dict[str, Any]]) -> str:
    """The page with the list of words that changed since a study was published."""
    lines = ["| study | change | word when published (corrected p) | word now (corrected p) |", "|---|---|---|---|"]
    total = 0
    for name, document in documents.items():
        was = {one["variant"]: one for one in document.get("judged_before", ())}
        total += len(was)
        for one in document["verdicts"]:
            before = was.get(one["variant"])
            if before is not None and before["verdict"] != one["verdict"]:
                then, now = (f"{row['verdict']} ({_p(row.get('p_corrected'))})" for row in (before, one))
                lines.append(f"| {name} | {one['variant']} | {then} | {now} |")
    lines.append(f"\n{len(lines) - 2} of {total} words changed.")
    return CHANGED.sub(lambda place: f"{place[1]}{chr(10).join(lines)}\n{place[2]}", text)


def _p(p: float | None) -> str:
    return "-" if p is None else f"{p:.2g}"


def take_sizes(sizes: SizeStudy) -> None:
    """The figures, values and picture of a study at several sizes."""
    name, document = sizes.folder.resolve().name, compact_sizes(sizes)
    write_json(MEASUREMENTS / f"sizes-{name}.json", json.loads(without_own_paths(json.dumps(document))))
    for size, study in sizes.studies.items():
        keep_values(study.folder, MEASUREMENTS / f"size-values-{name}-{size}.json")
    (PAGE.parent / PICTURE.format(name=name)).write_bytes(to_bytes(size_figure(sizes).figure))


def main(folders: list[str]) -> None:
    if folders == ["--again"]:
        for name, document in measured().items():
            file = MEASUREMENTS / f"values-{name}.json"
            if file.is_file():
                write_json(MEASUREMENTS / f"study-{name}.json", judge_again(document, file))
        folders = []
    for folder in folders:
        if SizeStudy.exists(folder):
            take_sizes(SizeStudy.load(folder))
            continue
        document = compact(Study.load(folder))
        write_json(MEASUREMENTS / f"study-{document['study']}.json", json.loads(without_own_paths(json.dumps(document))))
        keep_values(Path(folder), MEASUREMENTS / f"values-{document['study']}.json")
    text = changed(summary(PAGE.read_text(encoding="utf-8"), measured()), measured())
    PAGE.write_text(noise(page(text, measured())), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except GlassformerError as error:
        sys.exit(str(error))
