"""Every kind of block of a report reaches the page, and text stays text."""

from __future__ import annotations

import base64
import json
from typing import get_args

from glassformer.figures.style import new_axes
from glassformer.foundation.estimate import Estimate
from glassformer.pages import page as report
from glassformer.web.page_json import page_to_dict

EVIL = "<img src=x onerror=alert(1)>"


def test_every_kind() -> None:
    figure, _ = new_axes()
    blocks = [
        report.Heading(EVIL),
        report.Paragraph(EVIL),
        report.Banner(EVIL, "taint"),
        report.Table(["a", "b"], [[EVIL, Estimate(1.5, 1.0, 2.0, 3)]], note="n", tainted=EVIL, sound=frozenset({0})),
        report.FigureBlock(figure, caption="c", alt="what it shows"),
        report.KeyValues({"k": None}),
        report.Verdicts([report.Verdict("change", "better", "is better.", "Exploratory:")]),
        report.Listing("  text"),
        report.Fold("more", [report.Paragraph("inside")]),
    ]
    assert {type(block) for block in blocks} == set(get_args(report.Block))
    plain = json.loads(json.dumps(page_to_dict(report.Page(title="t", sections=blocks))))
    heading, _, banner, table, picture, facts, verdicts, _, fold = plain["blocks"]
    assert (heading["text"], banner["tone"]) == (EVIL, "taint")
    assert table["tainted"] == banner == {"kind": "banner", "text": EVIL, "tone": "taint", "word": "Tainted: ", "role": "alert"}
    assert table["rows"] == [[[EVIL], ["1.500", "[1.000, 2.000]"]]]
    assert (table["numeric"], table["sound"]) == ([False, True], [0])
    assert b"<svg" in base64.b64decode(picture["picture"].partition(",")[2])
    assert facts["facts"] == [["k", "–"]]
    assert verdicts["items"][0]["verdict"] == "better"
    assert fold["blocks"][0]["text"] == "inside"


def test_a_page_that_may_not_be_trusted_says_so() -> None:
    assert page_to_dict(report.Page(title="t", sections=[], tainted="It leaks."))["tainted"]["text"] == "It leaks."
    assert page_to_dict(report.Page(title="t", sections=[]))["tainted"] is None
