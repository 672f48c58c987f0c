"""Markdown: by hand, escaped, and figures as files when a folder is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.figures.curves import cost_by_part
from glassformer.foundation.estimate import Estimate
from glassformer.pages.page import (
    Banner,
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

FIGURE = cost_by_part({"mixer": 3.0}, unit="bytes")


def test_by_hand() -> None:
    page = Page(
        "A page",
        [
            Heading("Part"),
            Table(["name", "loss"], [["a", Estimate(2.0, 1.5, 2.5, 7)]], caption="Cap", note="Note", tainted="leaks"),
            KeyValues({"steps": 2000}),
            Verdicts([Verdict("alibi", "better", "wins by 0.1"), Verdict("t5", "worse", "loses.", before="Tried later:")]),
            Banner("Look", "note"),
            Fold("More", [Paragraph("inside")]),
        ],
        footer="end",
    )
    assert render_markdown(page) == (
        "# A page\n\n## Part\n\n> **Tainted: leaks**\n\n**Cap**\n\n| name | loss |\n| --- | ---: |\n"
        "| a | 2.000 \\[1.500, 2.500\\] |\n\nNote\n\n- steps: 2,000\n\n- *better:* **alibi** wins by 0.1\n"
        "- *worse:* Tried later: **t5** loses.\n\n> **Look**\n\n### More\n\ninside\n\n---\n\nend\n"
    )


def test_characters_mean_themselves() -> None:
    text = render_markdown(Page("a|b", [Paragraph("<i> *x* _y_ ` z\n# no heading"), Table(["a|b"], [["c|d"]])]))
    assert r"# a\|b" in text
    assert r"\<i\> \*x\* \_y\_ \` z \# no heading" in text
    assert r"| c\|d |" in text


def test_code_stays_code_in_sentences_and_is_text_elsewhere() -> None:
    said = "run\n`a *b*  <i>` or ` *not*"
    page = Page(said, [Paragraph(said), Banner(said, "note"), Verdicts([Verdict(said, "same", said)]), Table(["a"], [[said]])])
    title, paragraph, banner, verdict, *_, row = render_markdown(page).strip().split("\n\n")
    assert paragraph == "run `a *b* <i>` or \\` \\*not\\*"
    assert banner == f"> **{paragraph}**"
    plain = "run \\`a \\*b\\* \\<i\\>\\` or \\` \\*not\\*"
    assert title == f"# {plain}"
    assert verdict == f"- *same:* **{plain}** {paragraph}"
    assert row.endswith(f"| {plain} |")


def test_a_listing_cannot_end_early() -> None:
    text = render_markdown(Page("t", [Listing("```\nx\x00")]))
    assert "````\n```\nx\ufffd\n````" in text


def test_figures_become_files_when_a_folder_is_given(tmp_path: Path) -> None:
    page = Page(
        "t", [FigureBlock(FIGURE, "Cost", "bars"), FigureBlock(FIGURE, alt="more bars", tainted="leaks")], tainted="all"
    )
    text = render_markdown(page, figures=tmp_path / "pictures")
    assert "![bars](pictures/figure-1.svg)\n\n*Cost*" in text
    assert "> **Tainted: leaks**\n\n![more bars](pictures/figure-2.svg)" in text
    assert {file.name for file in (tmp_path / "pictures").iterdir()} == {"figure-1.svg", "figure-2.svg"}
    assert "*Figure 2: more bars*" in render_markdown(page)


def test_an_unknown_block_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError):
        render_markdown(Page("t", ["text"]))  # type: ignore[list-item]
