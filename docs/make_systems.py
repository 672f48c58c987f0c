"""docs/systems.yaml and the records in docs/measurements -> docs/systems.md, and the pictures of measured studies.

    python docs/make_systems.py            # writes the page and the pictures anew from the records
    python docs/make_systems.py --measure  # solves the problems of attention by hand once more (seconds), then the same

A row names its records: ``FILE#dotted.path`` inside docs/measurements. A number of ours stands on the page only if a record
holds it; a row without one says what is missing and with which command it is to be had. Trains nothing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.evaluation.interval_estimates import mean
from glassformer.figures.cost_by_length import scaling
from glassformer.figures.intervals import IntervalRow, difference_intervals
from glassformer.figures.save import save_figure
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.yaml_text import parse_yaml

DOCS = Path(__file__).parent
PAGE, ROWS, MEASUREMENTS, PICTURES = DOCS / "systems.md", DOCS / "systems.yaml", DOCS / "measurements", DOCS / "pictures"
BY_HAND = MEASUREMENTS / "systems-byhand.json"
PLACEHOLDER = re.compile(r"\{(\w+)\}")  # a setting such as {kind: dot} is none
LONGEST_LIST = 16  # numbers of a curve are for the picture, not for the page
WORDS = ("better", "worse", "same", "not decided", "invalid")

TOP = """# Six small systems: what was published, what we found

Written by `python docs/make_systems.py` from [systems.yaml](systems.yaml) and the records in [measurements](measurements); a
test holds the page equal to them and executes each command in short. Each system is a known exercise about one part of the
Transformer: attention by hand and a mini GPT (S0), reasoning about attention and tuning few parameters (S1), what a model
knows (S2), an encoder and a decoder on speeches (S3), a GPT from scratch (S4), the whole Transformer on pairs of texts (S5).
The published figures are those of course work and public solutions, one run each unless said. Ours carry a 95 % interval:
over seeds where there are several, otherwise over the documents, texts or people that were measured, and then the row says
"one seed". How verdicts are reached: [statistics](statistics.md); all studies: [studies](studies.md). `glassformer data
list` says where the files of a set come from; put them under `GLASSFORMER_DATA`.
Question by question: [exercises](exercises/index.md).
"""


def load_rows() -> list[dict[str, Any]]:
    systems: list[dict[str, Any]] = parse_yaml(ROWS.read_text(encoding="utf-8"), str(ROWS))["systems"]
    return systems


def record(reference: str) -> Any:
    """What stands at ``FILE#dotted.path``; a missing file or key is an error."""
    file, _, path = reference.partition("#")
    found: Any = read_json(MEASUREMENTS / file)
    for key in filter(None, path.split(".")):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def figure(reference: str, form: str = "") -> str:
    """A number of a record with its interval; runs (a list, or a mapping from seeds) become their mean over seeds."""
    found = record(reference)
    if form == "points":  # a difference of two shares
        return figure(reference, "percent").replace(" %", "")
    percent = form == "percent"
    if form == "document perplexity":
        return shown(document_perplexity(found), percent=False)
    if isinstance(found, dict) and "value" in found:
        return shown(Estimate(found["value"], found.get("low"), found.get("high"), found.get("n")), percent=percent)
    values = list(found.values()) if isinstance(found, dict) else found
    if isinstance(values, list) and form == "vector":
        return "(" + ", ".join(f"{value:.3g}" for value in values) + ")"
    if isinstance(values, list):
        many = mean(np.array(values, dtype=np.float64))
        return f"{shown(many, percent=percent)} over {len(values)} seeds"
    return shown(Estimate(float(found)), percent=percent) if isinstance(found, int | float) else str(found)


def document_perplexity(variant: dict[str, Any]) -> Estimate:
    """The mean of the documents' own perplexities, over seeds, from the losses by seed and document that a study keeps."""
    return mean(np.exp(np.array(variant["values"])).mean(axis=1))


def shown(estimate: Estimate, *, percent: bool) -> str:
    """In as many digits as people compare."""
    assert estimate.value is not None
    numbers = [estimate.value, estimate.low, estimate.high]
    if percent:
        texts = [f"{100 * number:.1f}" for number in numbers if number is not None]
        return f"{texts[0]} %" + (f" [{', '.join(texts[1:])}]" if len(texts) > 1 else "")
    digits = 0 if abs(estimate.value) >= 10_000 else 1 if abs(estimate.value) >= 10 else 3
    texts = [
        f"{number:,.{digits}f}" if abs(number) >= 0.001 or number == 0 else f"{number:.2g}"
        for number in numbers
        if number is not None
    ]
    if float(estimate.value).is_integer() and len(texts) == 1:
        return f"{estimate.value:,.0f}"
    return texts[0] + (f" [{', '.join(texts[1:])}]" if len(texts) > 1 else "")


def _digits(number: float, digits: int) -> str:
    return f"{number:,.{digits}f}" if abs(number) >= 0.001 or number == 0 else f"{number:.2g}"


def studies_of(row: dict[str, Any]) -> list[str]:
    return list(row.get("studies", ()))


def study_record(name: str) -> dict[str, Any] | None:
    file = MEASUREMENTS / f"study-{name}.json"
    found: dict[str, Any] | None = read_json(file) if file.is_file() else None
    return found


def verdicts(row: dict[str, Any]) -> str:
    """The words of each study of a row with the differences."""
    parts = []
    for name in studies_of(row):
        document = study_record(name)
        if document is None:
            parts.append(f"{name}: not measured yet")
            continue
        said = []
        for word in WORDS:
            ones = [one for one in document["verdicts"] if one["verdict"] == word]
            listed = ", ".join(f"{one['variant']}{_difference(one)}" for one in ones)
            said += [f"**{word}**: {listed}"] if ones else []
        parts.append(f"[{name}](studies.md) ({document['base']['seeds']} seeds, {document['unit']}): " + "; ".join(said))
    return "<br>".join(parts)


def _difference(one: dict[str, Any]) -> str:
    difference = one.get("difference")
    if difference is None or difference["value"] is None or one["verdict"] == "invalid":
        return ""
    return f" {difference['value']:+.3f} [{difference['low']:+.3f}, {difference['high']:+.3f}]"


def filled(row: dict[str, Any], text: str) -> str:
    """A text of a row with the row's figures in it."""

    def number(place: re.Match[str]) -> str:
        reference, _, form = str(row["figures"][place[1]]).partition("|")
        return figure(reference.strip(), form.strip())

    return PLACEHOLDER.sub(number, text)


def found(row: dict[str, Any]) -> str:
    """What was found, with its figures filled in, and what is still open."""
    parts = [filled(row, row.get("found", "")), *(table(name) for name in row.get("tables", ()))]
    parts += [f"*Open: {row['open']}*"] if row.get("open") else []
    return " ".join(filter(None, parts)).strip()


def table(name: str) -> str:
    """Figures of a study's variants by text, over seeds: of bench/study_table.py, or of a study that was only begun."""
    file = MEASUREMENTS / f"table-{name}.json"
    if not file.is_file():
        return f"Perplexity of each variant by text: not measured yet (`python bench/study_table.py studies/{name}`)."
    document = read_json(file)
    rows = []
    for variant, columns in document["rows"].items():
        figures = ", ".join(f"{column} {shown(Estimate.from_dict(value), percent=False)}" for column, value in columns.items())
        rows.append(f"{variant}: {figures}")
    differences = document.get("loss_minus_base", {})
    listed = ", ".join(f"{name}{_difference({'difference': one, 'verdict': ''})}" for name, one in differences.items())
    rows += [f"Loss, difference from the base: {listed}"] if listed else []
    return f"<details><summary>{document['what']} ({name})</summary>{'<br>'.join(rows)}</details>"


def pictures(row: dict[str, Any]) -> str:
    names = [*row.get("pictures", ()), *(f"study-{name}.svg" for name in studies_of(row) if study_record(name))]
    return " ".join(f"[{Path(name).stem}](pictures/{name})" for name in names)


def page() -> str:
    """The whole page, from the rows and the records alone: a table of one line per item, then the story of each."""
    parts = [TOP]
    for system in load_rows():
        parts.append(f"## {system['name']}\n\n{system['about']}\n")
        lines = ["| item | published | found |", "|---|---|---|"]
        for row in system["rows"]:
            short = filled(row, row.get("short") or row.get("found", "")) or "a study: its words are in the story"
            cells = [f"[{row['item']} {row['title']}](#{anchor(row)})", row["published"], short]
            lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
        parts += ["\n".join(lines) + "\n", *(story(row) for row in system["rows"])]
    return "\n".join(parts)


def anchor(row: dict[str, Any]) -> str:
    """The id that a Markdown renderer gives the heading of a row's story."""
    return re.sub(r"[^\w -]", "", f"{row['item']} {row['title']}".lower()).replace(" ", "-")


def story(row: dict[str, Any]) -> str:
    """How to run one item, all that was found, the verdicts and the pictures."""
    commands = "\n".join(row["commands"])
    parts = [f"### {row['item']} {row['title']}", f"```\n{commands}\n```", found(row), verdicts(row), pictures(row)]
    return "\n\n".join(filter(None, parts)) + "\n"


def study_picture(name: str) -> None:
    """The intervals of a study's verdicts as a picture."""
    document = study_record(name)
    assert document is not None
    rows = []
    for one in document["verdicts"]:
        difference = one.get("difference") or {}
        rows.append(IntervalRow(one["variant"], one["verdict"], *(difference.get(key) for key in ("value", "low", "high"))))
    lower = document["metric"] not in ("accuracy", "exact_match")
    picture = difference_intervals(rows, margin=document["margin"], unit=document["unit"], lower_is_better=lower, title=name)
    save_figure(picture, PICTURES / f"study-{name}.svg")


def attention_picture() -> None:
    """Time and memory of every mixer against length, from the record of ``glassformer bench attention``."""
    document = read_json(MEASUREMENTS / "bench-attention-one-thread.json")
    mixers = [one for one in document["mixers"] if "(" not in one["mixer"]]
    save_figure(scaling(mixers, title="time and memory against length"), PICTURES / "bench-attention.svg")


def measure() -> None:
    """Solves the problems of the rows once more, keeps their numbers and draws their pictures."""
    from glassformer.byhand.request import answer, request_from_words

    kept: dict[str, Any] = {"spans": spans()}
    for row in (row for system in load_rows() for row in system["rows"]):
        for name, problem in row.get("problems", {}).items():
            request, folder = request_from_words(str(problem["words"]).split())
            result = answer({**request, **problem.get("more", {})}, folder=folder)
            kept[name] = short(result.to_dict())
            if f"byhand-{name}.svg" in row.get("pictures", ()):
                save_figure(result.figure(), PICTURES / f"byhand-{name}.svg")
    write_json(BY_HAND, kept)


def spans(rows: int = 10_000, context: int = 128) -> dict[str, Any]:
    """How the rule of span corruption cuts and hides: lengths of the cut text, and the share that is hidden of it."""
    from glassformer.objectives.span_rows import DRAWS, SpanRule, TextLines, draw

    rule = SpanRule(
        shortest=4, longest=context * 7 // 8, random_cut=True, mean_share=0.25, mean_span=None, salient=0.0, start="line"
    )
    lines = TextLines(np.zeros(2 * context, dtype=np.int64), np.array([0]), ["a"], salient=False)
    uniform_RU = np.random.default_rng(0).random((rows, DRAWS + 2 * rule.spans))
    drawn = draw(lines, np.zeros(rows, dtype=np.int64), uniform_RU, rule)
    share = (drawn.end_RK - drawn.begin_RK)[:, 0] / drawn.length
    found = mean(share)
    return {
        "rows": rows,
        "shortest": int(drawn.length.min()),
        "longest": int(drawn.length.max()),
        "share": short(found.to_dict()),
    }


def short(value: Any) -> Any:
    """A result without its texts and curves, in twelve digits, so that another machine gives the same."""
    if isinstance(value, dict):
        return {key: short(part) for key, part in value.items() if key not in ("text", "curve", "rows") and not _long(part)}
    if isinstance(value, list):
        return [short(part) for part in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def _long(value: Any) -> bool:
    return isinstance(value, list) and len(value) > LONGEST_LIST


def main(words: list[str]) -> None:
    if "--measure" in words:
        measure()
    for name in dict.fromkeys(name for system in load_rows() for row in system["rows"] for name in studies_of(row)):
        if study_record(name) is not None:
            study_picture(name)
    attention_picture()
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
