"""docs/systems.md: written from its rows and records, every row has one or says what is open, every command parses."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from glassformer.cli.main import app
from glassformer.foundation.config import parse_assignment
from glassformer.recipe import load_recipe
from glassformer.study.planning.plan import built_in_studies

ROOT = Path(__file__).parents[2]
PLACES = ("runs/", "studies/")  # what an earlier command of the row has made


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_systems", ROOT / "docs" / "make_systems.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(maker: ModuleType) -> list[dict[str, Any]]:
    return [row for system in maker.load_rows() for row in system["rows"]]


def test_the_page_is_what_the_records_say(maker: ModuleType) -> None:
    assert maker.PAGE.read_text(encoding="utf-8") == maker.page(), "run python docs/make_systems.py"


def test_every_item_is_there(rows: list[dict[str, Any]]) -> None:
    items = {"S0": 5, "S1": 4, "S2": 6, "S3": 4, "S4": 6, "S5": 5}
    assert {row["item"] for row in rows} == {f"{system}.{at}" for system, last in items.items() for at in range(1, last + 1)}


def test_every_row_has_a_record_or_says_what_is_open(maker: ModuleType, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        measured = [name for name in row.get("studies", ()) if maker.study_record(name)]
        assert row.get("figures") or measured, f"{row['item']} {row['title']} has no record"
        if len(measured) < len(row.get("studies", ())):
            assert row.get("open"), f"{row['item']} has a study without a record and does not say what it needs"
        unused = set(row.get("figures", {})) - set(maker.PLACEHOLDER.findall(row.get("found", "")))
        assert not unused, f"{row['item']} does not show {unused}"


def test_every_picture_is_there(maker: ModuleType, rows: list[dict[str, Any]]) -> None:
    shown = set(re.findall(r"\]\((pictures/[^)]+)\)", maker.page()))
    assert len(shown) > 20
    assert [name for name in sorted(shown) if not (ROOT / "docs" / name).is_file()] == []


def test_every_command_parses(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        for command in row["commands"]:
            words = shlex.split(command)
            if words[0] == "python":
                source = (ROOT / words[1]).read_text(encoding="utf-8")
                assert all(word in source for word in words[2:] if word.startswith("--")), command
                continue
            assert words[0] == "glassformer", command
            parses(words[1:])


@functools.cache
def verbs() -> Any:
    return typer.main.get_command(app)


def parses(words: list[str]) -> None:
    """The command line takes the words; a recipe, a plan and its settings exist."""
    command = verbs()
    name, rest = "", list(words)
    while hasattr(command, "commands"):
        name, *rest = rest
        command = command.commands[name]
    given = command.make_context(name, rest).params
    recipe = given.get("recipe")
    if not isinstance(recipe, str) or name not in ("train", "compare"):
        return
    if recipe not in built_in_studies():
        load_recipe(recipe, dict(parse_assignment(text) for text in given.get("set_") or ()))


def test_a_flag_that_does_not_exist_is_seen() -> None:
    with pytest.raises(Exception, match="--colour"):
        parses(["train", "speeches-lm", "--colour", "red"])
    with pytest.raises(Exception, match="head_widht"):
        parses(["train", "speeches-lm", "--set", "model.head_widht=2"])


@pytest.mark.slow
def test_problems_by_hand_give_the_record_again(maker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "BY_HAND", tmp_path / "again.json")
    monkeypatch.setattr(maker, "PICTURES", tmp_path)
    maker.measure()
    kept, again = (maker.read_json(file) for file in (maker.MEASUREMENTS / "systems-byhand.json", tmp_path / "again.json"))
    assert kept.keys() == again.keys()
    assert again["select"]["weights"] == pytest.approx(kept["select"]["weights"], rel=1e-6)
    assert again["heads"]["numbers"]["one head, length of k_a varies"]["share_one_sided"] == pytest.approx(0.87925)
