"""docs/exercises: written from exercises.yaml and its records; every item has a command, a result and its pictures."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    sys.path.insert(0, str(DOCS))
    import make_exercises

    return make_exercises


@pytest.fixture(scope="module")
def items(maker: ModuleType) -> list[dict[str, Any]]:
    return [item for exercise in maker.exercises() for item in exercise["items"]]


def test_the_pages_are_what_the_records_say(maker: ModuleType) -> None:
    for file, text in maker.pages().items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name}: run python docs/make_exercises.py"


def test_every_question_is_there_once(items: list[dict[str, Any]]) -> None:
    ids = [item["id"] for item in items]
    assert len(ids) == len({*ids})
    asked = {"S0": 38, "S1": 19, "S2": 22, "S3": 10, "S4": 29, "S5": 6}
    assert {name: sum(one.startswith(name) for one in ids) for name in asked} == asked


def test_every_item_has_a_command_and_every_figure_is_used(maker: ModuleType, items: list[dict[str, Any]]) -> None:
    for item in items:
        assert item.get("run") or item.get("refused"), item["id"]
        shown = {*re.findall(r"\{(\w+)\}", item["answer"] + item["result"])}
        assert {*item.get("figures", {})} <= shown, f"{item['id']} does not show {set(item['figures']) - shown}"
        assert len(item["result"]) < 110, item["id"]


def test_every_record_says_how_it_was_made(maker: ModuleType, items: list[dict[str, Any]]) -> None:
    named = maker.document()["records"]
    assert {*named} == {name for item in items for name in maker.records(item)}
    assert all({*made} == {"by", "where", "commit"} for made in named.values())


def test_a_command_uses_only_what_commands_above_it_wrote(maker: ModuleType) -> None:
    """A reader goes down one page: every run, study and tokenizer that a command reads was written above it."""
    for exercise in maker.exercises():
        written: set[str] = set()
        for item in exercise["items"]:
            for line in item.get("run", ()):
                out = {*re.findall(r"--(?:out|predictions|figure) (\S+)", line)}
                read = {*re.findall(r"(?<![\w/.])(?:(?:runs|studies)/[\w-]+|tok\.json|[a-z.]+\.params)", line)} - out
                assert read <= written, f"{item['id']}: {line}"
                written |= out


def test_items_that_need_an_encoder_are_marked(maker: ModuleType) -> None:
    def items(*runs: list[str]) -> dict[str, Any]:
        return {"items": [{"id": str(at), "run": list(lines)} for at, lines in enumerate(runs)]}

    encoder = ["glassformer train sst2-exercise --out runs/a", "glassformer report runs/a"]
    either = ["glassformer data show boolq-minilm", "glassformer data show speeches-lm"]
    other = ["glassformer train speeches-lm --set data.set=boolq --out runs/a-b"]
    read = items(encoder, ["glassformer evaluate runs/a"], either, other, ["glassformer evaluate runs/a-b"])
    assert maker.needing_weights(read) == {"0", "1"}


def test_links_and_pictures_lead_somewhere(maker: ModuleType) -> None:
    pages = maker.pages()
    for file, text in pages.items():
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            assert (file.parent / target).exists() or file.parent / target in pages, f"{file.name}: {target}"
    headings = {
        file.name + "#" + re.sub(r"[^\w -]", "", line[3:].lower()).replace(" ", "-")
        for file, text in pages.items()
        for line in text.splitlines()
        if line.startswith("## ")
    }
    linked = set(re.findall(r"\]\((S\d\.md#[^)]+)\)", pages[DOCS / "exercises" / "index.md"]))
    assert linked <= headings
    contents = {f"{file.name}#{target}" for file, text in pages.items() for target in re.findall(r"\]\(#(s\d[^)]+)\)", text)}
    assert contents == headings - {one for one in headings if one.startswith("index.md")}
