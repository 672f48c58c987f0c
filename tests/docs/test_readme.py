"""README: its pictures are there, small and drawn from real output; the first screen shows a terminal, a map, the verdicts."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_SCREEN = README.split("## What it does")[0]
PICTURES = re.findall(r"!\[(.+?)\]\((docs/\S+?)\)", README)


def make_readme():
    spec = importlib.util.spec_from_file_location("make_readme", ROOT / "docs" / "make_readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pictures_are_there_and_small() -> None:
    for _, file in PICTURES:
        assert 1000 < (ROOT / file).stat().st_size < 250_000, file


def test_the_first_screen_shows_a_terminal_a_map_and_the_verdicts() -> None:
    shown = [file for _, file in PICTURES if file in FIRST_SCREEN]
    assert [Path(file).stem for file in shown] == ["readme-evaluate", "readme-attention", "readme-verdicts"]
    texts = {file: " ".join(ElementTree.parse(ROOT / file).getroot().itertext()) for file in shown}
    terminal, _, verdicts = texts.values()
    assert "$ glassformer evaluate runs/mine" in terminal
    assert "bigram" in terminal
    for word in ("better", "same", "not decided", "invalid"):
        assert word in verdicts


def test_a_terminal_loses_nothing() -> None:
    lines = ["a < b & c", "", "x" * 130, "[better] it is"]
    drawn = make_readme().terminal("glassformer demo", "\n".join(lines), most=100)
    rows = [text.text or "" for text in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert rows == ["$ glassformer demo", "a < b & c", "", "x" * 100, "x" * 30, "[better] it is"]


def test_the_changelog_can_be_read() -> None:
    """By subject, in lines: not the history of its building."""
    release = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    assert len(release.encode()) < 12_000
    lines = [line for line in release.splitlines() if line.startswith("- ")]
    assert len(lines) >= 20
    assert max(map(len, lines)) < 450


def test_numbers_in_words_are_those_of_the_tree() -> None:
    from glassformer.pretrained.tuning.base import TUNINGS

    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    counted = {
        "tuned in one of {} ways": len(TUNINGS.names()),
        "[{} published exercises repeated]": len(re.findall(r"^## S\d", (ROOT / "docs/systems.md").read_text("utf-8"), re.M)),
        "[A course in {} lessons]": len(list((ROOT / "docs/course").glob("*.ipynb"))),
    }
    assert [text for text, number in counted.items() if text.format(words[number]) not in README] == []
