"""docs/look.md: its pictures are there and small, and its flags are those of the command."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from glassformer.cli.look import command

PAGE = Path(__file__).parents[2] / "docs" / "look.md"
MOST = 150_000  # bytes of one picture


def test_pictures() -> None:
    named = re.findall(r"!\[.+?\]\((.+?)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(named) == sorted(f"pictures/{file.name}" for file in (PAGE.parent / "pictures").glob("look-*"))
    assert all((PAGE.parent / name).stat().st_size < MOST for name in named)


def test_flags() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = set(re.findall(r"`--(\w+)", text))
    known = {name.rstrip("_") for name in inspect.signature(command).parameters} - {"run", "text", "plugin"}
    assert shown == known
