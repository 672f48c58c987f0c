"""The frame of all our pages: one style, nothing from outside, no script unless one is meant."""

from __future__ import annotations

from glassformer.figures.html_document import html_document, shared_style


def test_a_document_holds_what_it_needs_and_may_load_nothing() -> None:
    page = html_document(title="a < b & $c", body="<main>here</main>", style=".own { color: red }")
    assert "<title>a &lt; b &amp; $c</title>" in page
    assert page.index(shared_style()) < page.index(".own { color: red }")  # what is special comes after what is shared
    assert "<main>here</main>" in page
    assert "default-src 'none'" in page
    assert "script-src" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_scripts_only_where_they_are_meant() -> None:
    assert "script-src 'unsafe-inline'" in html_document(title="t", body="", scripts=True)
