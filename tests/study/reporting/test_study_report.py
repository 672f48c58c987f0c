"""The page of a study, and of several sets: verdicts, dots, cost, curves, settings; nothing from outside."""

from __future__ import annotations

import html
import re

import pytest

from glassformer.pages.html import render
from glassformer.pages.page import FigureBlock, Fold, Table, Verdicts
from glassformer.study.reporting.study_report import (
    cost_points,
    sets_page,
    study_page,
    variant_curve,
    write_report,
)
from glassformer.study.study import Study

BASE = [1.50, 1.52, 1.49, 1.51, 1.53, 1.48]
BETTER = [value - 0.2 + 0.001 * at for at, value in enumerate(BASE)]
SAME = [value + 0.0002 * (-1) ** at for at, value in enumerate(BASE)]
NOISY = [1.3, 1.8, 1.5, 1.2, 1.6, 1.55]


@pytest.fixture
def study(made_up, tmp_path) -> Study:
    losses = {"base": BASE, "alibi": BETTER, "rotary": SAME, "t5": NOISY, "none": []}
    return made_up.study(tmp_path / "study", losses, leaks={"none": "sees <all>."}, about="A study & its <reason>.")


def test_everything_the_issue_names_is_on_the_page(study):
    page = study_page(study)
    (verdicts,) = [block for block in page.sections if isinstance(block, Verdicts)]
    assert [item.verdict for item in verdicts.items] == ["better", "same", "not decided", "invalid"]
    figures = [block for block in page.sections if isinstance(block, FigureBlock)]
    captions = " ".join(figure.caption for figure in figures)
    assert "every seed is a dot" in captions
    assert "Cost against quality" in captions
    assert "Loss on training and validation text" in captions
    tables = [block for block in page.sections if isinstance(block, Table)]
    assert [table.header[0] for table in tables] == ["change", "variant", "variant"]
    assert "model.positions" in tables[-1].header
    assert page.tainted is None


def test_page_and_markdown_are_written_and_need_nothing_else(study):
    file = write_report(study)
    page = file.read_text(encoding="utf-8")
    assert "A study &amp; its &lt;reason&gt;." in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|<all>", page)
    assert page.count("<svg") == 3
    text = study.directory.markdown_file.read_text(encoding="utf-8")
    assert "- *better:* **alibi** is better" in text
    assert "glassformer compare" in text
    pictures = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(pictures) == 3
    assert all((study.folder / picture).is_file() for picture in pictures)
    other = write_report(study, study.folder / "elsewhere.html")
    assert other.read_text(encoding="utf-8") == page


def test_every_verdict_names_its_variant_once(made_up, tmp_path):
    later = [{"name": "a", "set": {"model.positions": "a"}, "exploratory": True}]
    planned = [{"name": name, "set": {"model.positions": name}} for name in ("alibi", "t5", "cheat")]
    losses = {"base": BASE, "alibi": BETTER, "t5": NOISY[:2], "cheat": BETTER, "a": SAME}
    study = made_up.study(tmp_path / "study", losses, changes=planned + later, leaks={"cheat": "sees all."}, allow_leaks=True)
    told = [re.sub("<[^>]*>", "", item) for item in re.findall(r"<li><span.*?</li>", render(study_page(study)))]
    assert [re.sub(r"[:,].*", "", item) for item in told] == [
        "better alibi is better",
        "not decided t5 is not decided",
        "invalid cheat is invalid",
        "same Exploratory",
    ]
    assert "same Exploratory, added after the plan: a is the same within" in told[3]
    whole = [html.escape(f"{verdict.verdict} {verdict.sentence}") for verdict in study.verdicts]
    assert told == whole  # the page leaves nothing out, and the sentence that stands alone still has its name
    assert all(verdict.variant in verdict.to_dict()["sentence"] for verdict in study.verdicts)
    assert str(study).count("[better] alibi is better") == 1


def test_every_seed_is_a_dot(study):
    picture = next(block for block in study_page(study).sections if isinstance(block, FigureBlock)).figure
    dots = [len(part.get_offsets()) for part in picture.axes[0].collections if len(part.get_offsets()) > 1]
    assert dots == [6, 6, 6]


def test_cost_and_curves_by_hand(study):
    points = cost_points(study, "parameters")
    assert [(point.name, point.cost) for point in points] == [("base", 100), ("alibi", 110), ("rotary", 120), ("t5", 130)]
    curve = variant_curve(study, "alibi")
    assert list(curve.validation.steps) == [12.0, 24.0]
    assert curve.validation.runs.shape == (6, 2)
    assert variant_curve(study, "none") is None


def test_figures_of_a_leak_are_marked(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", {"base": BASE, "cheat": BETTER}, leaks={"cheat": "sees all."}, allow_leaks=True)
    marked = [block for block in study_page(study).sections if isinstance(block, Table | FigureBlock) and block.tainted]
    assert len(marked) == 3
    assert "cheat: a check found a leak" in marked[0].tainted


def test_a_study_without_any_run_has_a_page(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", {"base": [], "alibi": []})
    assert "0 of the 6 planned seeds have run" in write_report(study).read_text(encoding="utf-8")


def test_the_page_of_sets_has_the_verdicts_every_set_and_the_line_over_all(sets):
    page = sets_page(sets)
    verdicts = next(block for block in page.sections if isinstance(block, Verdicts))
    assert [(item.name, item.verdict) for item in verdicts.items] == [("alibi", "better"), ("none", "better")]
    assert verdicts.items[0].sentence.startswith("is better over 3 sets")
    table = next(block for block in page.sections if isinstance(block, Table))
    assert [row[1] for row in table.rows] == ["a", "b", "c", "over all sets"] * 2
    assert table.rows[3][4] == sets.verdicts[0].difference
    assert sum(isinstance(block, FigureBlock) for block in page.sections) == 2
    assert [block.title for block in page.sections if isinstance(block, Fold)] == ["a", "b", "c"]


def test_the_page_of_sets_is_one_file_with_markdown_beside_it(sets, tmp_path):
    file = sets.report()
    html = file.read_text(encoding="utf-8")
    assert file == sets.folder / "report.html"
    assert "over all sets" in html
    assert 'src="http' not in html
    assert (sets.folder / "report.md").read_text(encoding="utf-8").startswith("# Study both")
    assert list((sets.folder / "figures").iterdir())
    assert sets.report(tmp_path / "page.html") == tmp_path / "page.html"
