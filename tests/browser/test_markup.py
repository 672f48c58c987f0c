"""Markup in texts, names and notes is shown as letters, never run, wherever the page shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
from glassformer.experiment import train
from glassformer.runs.directory import RunDirectory

pytestmark = pytest.mark.browser
MARKUP = "<img src=x onerror=alert(1)>"
RAN = "() => document.querySelectorAll('img[src=\"x\"], main script').length"


@pytest.fixture
def hostile(folder: Path, tmp_path: Path) -> RunDirectory:
    """A run whose text is markup, so that its samples, tokens and maps are; its description and its note, too."""
    text = tmp_path / "markup.txt"
    text.write_text(f"{MARKUP}\n" * 200)
    values: dict[str, Any] = {
        "about": MARKUP,
        "data": {"path": str(text), "document": "line", "split": {"validation": 0.2}},
        "model": {"width": 32, "heads": 2, "layers": 1, "context": 48},
        "training": {"steps": 80, "batch_size": 8, "lr": 0.02, "device": "cpu", "precision": "float32"},
        "evaluation": {"every": 40},
    }
    run = train(values, out=folder / "markup").directory
    run.add_note(MARKUP)
    return run


def test_markup_is_letters_everywhere(open_page, server, folder: Path, hostile: RunDirectory) -> None:
    (folder / f"{'x' * 8}&lt;b&gt;").mkdir()  # a name with entities
    page = open_page()
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    for place in ("runs", "run/markup"):
        page.goto(server.at(place))
        page.get_by_text(re.compile("markup|<img")).first.wait_for()
        assert page.evaluate(RAN) == 0
    page.get_by_text(MARKUP).first.wait_for()
    page.goto(server.at("generate/markup"))
    page.get_by_label("Prompt").fill("<img src=x ")
    page.get_by_label("temperature").fill("0")
    page.get_by_role("button", name="Generate").click()
    page.get_by_text(re.compile("tokens, ended by")).wait_for()
    written = page.get_by_role("region", name="Generated text").inner_text()
    assert written.startswith("<img src=x onerror"), written  # it did learn to write markup
    assert page.evaluate(RAN) == 0
    page.goto(server.at("tokens/markup"))
    page.get_by_label("Text", exact=True).fill(MARKUP)
    page.get_by_text(re.compile(r"\d+ tokens \(")).wait_for()
    assert page.evaluate(RAN) == 0
    page.goto(server.at("look/markup"))
    page.get_by_label("Text", exact=True).fill(MARKUP)
    page.get_by_role("button", name="Look").click()
    page.get_by_role("table").first.wait_for()
    assert page.evaluate(RAN) == 0
    assert dialogs == []
