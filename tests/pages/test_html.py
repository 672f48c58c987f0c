"""The HTML page: text cannot become markup, nothing is loaded, tags balance, and a real browser has no complaint."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from glassformer.figures.curves import Curve, Points, cost_by_part, learning_curves
from glassformer.foundation.estimate import Estimate
from glassformer.pages.html import render
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

HOSTILE = '<script>alert("x")</script> & $title \x00'


def make_page(text: str = "plain", **settings) -> Page:
    curves = learning_curves([Curve(text, Points(np.arange(5.0), np.arange(5.0)[::-1]), Points.of([0, 4], [4, 1]))], title=text)
    sections = [
        Heading(text),
        Paragraph(text),
        Banner(text),
        Banner(text, "note"),
        Heading("second"),
        Table([text, "loss"], [[text, Estimate(2.0, 1.5, 2.5, 7)], [text, Estimate(None, reason=text)]], text, text),
        Table(["a"], [[1]], tainted=text),
        FigureBlock(curves, text, text),
        FigureBlock(cost_by_part({"mixer": 3.0}, unit="bytes"), tainted=text),
        KeyValues({text: text, "n": 12345, "none": None}, text),
        Verdicts([Verdict(text, "not decided", text), Verdict("b", text, text, before=text)]),
        Listing(text, text),
        Fold(text, [Heading("third"), Paragraph(text)]),
    ]
    return Page(text, sections, subtitle=text, footer=text, **settings)


class Balance(HTMLParser):
    """Follows the tags; void elements have no end."""

    VOID = frozenset({"meta", "link", "br", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def hostile() -> str:
    return render(make_page(HOSTILE, tainted=HOSTILE))


def test_tags_balance_and_names_are_unique(hostile: str) -> None:
    parser = Balance()
    parser.feed(hostile)
    assert parser.open == []
    names = [attributes["id"] for _, attributes in parser.seen if "id" in attributes]
    assert len(names) == len(set(names))
    assert "script" not in {tag for tag, _ in parser.seen}


def test_text_stays_text(hostile: str) -> None:
    assert "<script" not in hostile
    assert "\x00" not in hostile
    assert hostile.count("&lt;script&gt;") >= 15
    assert "$title" in hostile


def test_code_is_code_in_sentences_and_text_elsewhere() -> None:
    page = render(make_page("run `a<b> & c`, or ` not"))
    code = "run <code>a&lt;b&gt; &amp; c</code>, or ` not"
    for sentence in ("<p>{}</p>", "<caption>{}</caption>", "<figcaption>{}</figcaption>", '<p class="small">{}</p>'):
        assert sentence.format(code) in page, sentence
    assert page.count(f"</strong>{code}</p>") == 4  # two banners, two taints
    assert page.count(f"</strong> {code}</li>") == 2
    plain = "run `a&lt;b&gt; &amp; c`, or ` not"
    for name in ("<title>{}</title>", '<h2 id="part-1">{}</h2>', "<td>{}</td>", "<dt>{}</dt>", "<summary>{}</summary>"):
        assert name.format(plain) in page, name
    assert f'<pre tabindex="0">{plain}</pre>' in page


def test_code_cannot_become_markup() -> None:
    page = render(make_page(f"`{HOSTILE}`"))
    assert "<script" not in page
    assert "<code>&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; $title \ufffd</code>" in page
    parser = Balance()
    parser.feed(page)
    assert parser.open == []


def test_nothing_points_outside(hostile: str) -> None:
    pointers = re.findall(r'(?:href|src|action)="([^"]*)"', hostile) + re.findall(r"url\(([^)]*)\)", hostile)
    assert pointers
    assert all(pointer.startswith(("#", "data:")) for pointer in pointers)
    assert "@import" not in hostile
    assert "default-src 'none'" in hostile


def test_every_link_of_the_contents_leads_to_its_heading() -> None:
    page = render(make_page())
    links = re.findall(r'<a href="#(part-\d)">([^<]*)</a>', page)
    assert links == re.findall(r'<h2 id="(part-\d)">([^<]*)</h2>', page)
    assert [text for _, text in links] == ["plain", "second", "third"]
    assert "<nav" not in render(Page("t", [Heading("only")]))


def test_numbers_intervals_and_reasons() -> None:
    page = render(make_page())
    assert '<td class="number">2.000 <span class="interval">[1.500, 2.500]</span></td>' in page
    assert "not defined (plain)" in page
    assert "<dd>12,345</dd>" in page
    assert "<dd>–</dd>" in page


def test_taint_is_beside_what_it_taints() -> None:
    page = render(Page("t", [Table(["a"], [[1]], tainted="sees the future"), Table(["b"], [[2]])], tainted="all of it"))
    assert page.count('class="banner taint"') == 2
    assert "<strong>Tainted: </strong>all of it" in page
    assert re.search(
        r'<section class="tainted">.*sees the future.*<th class="number" scope="col">a</th>.*</section>', page, re.DOTALL
    )


def test_a_verdicts_sentence_goes_on_after_its_name() -> None:
    page = render(
        Page("t", [Verdicts([Verdict("t5", "worse", "loses."), Verdict("a", "same", "ties.", before="Tried later:")])])
    )
    first, second = re.findall(r"<li><span[^>]*>(.*?)</li>", page)
    assert first == "worse</span> <strong>t5</strong> loses."
    assert second == "same</span> Tried later: <strong>a</strong> ties."


def test_the_same_page_gives_the_same_text() -> None:
    assert render(make_page()) == render(make_page())


def test_an_unknown_block_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError):
        render(Page("t", ["text"]))  # type: ignore[list-item]


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.browser
@pytest.mark.filterwarnings("default")
def test_in_a_real_browser(tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    program = chromium()
    if program is None:
        pytest.skip("chromium is not installed")
    file = tmp_path / "page.html"
    file.write_text(render(make_page(HOSTILE, tainted=HOSTILE)), encoding="utf-8")
    complaints: list[str] = []
    requests: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            for width, scheme in ((1200, "light"), (360, "dark")):
                tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
                tab.on("console", lambda message: complaints.append(message.text))
                tab.on("pageerror", lambda error: complaints.append(str(error)))
                tab.on("dialog", lambda dialog: complaints.append(dialog.message))
                tab.on("request", lambda request: requests.append(request.url))
                tab.goto(file.as_uri())
                assert tab.locator("figure svg").count() == 2
                assert tab.locator("figure svg").first.bounding_box()["width"] > 200
                assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")  # nothing sticks out
                assert not tab.locator("details p").is_visible()
                tab.locator("summary").click()
                assert tab.locator("details p").is_visible()
                colours = tab.evaluate(
                    "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
                )
                assert colours[0] != colours[1]
                tab.close()
        finally:
            browser.close()
    assert complaints == []
    assert [url for url in requests if url != file.as_uri() and not url.startswith("data:")] == []


def test_rows_that_a_taint_is_not_about_are_told_apart() -> None:
    table = Table(
        ["variant", "loss"], [["honest", 1.5], ["leaks", 1.2]], tainted="leaks sees the future.", sound=frozenset({0})
    )
    html = render(Page("t", [table]))
    assert '<tr class="sound"><td>honest' in html
    assert "<tr><td>leaks" in html
    assert "leaks sees the future." in html
