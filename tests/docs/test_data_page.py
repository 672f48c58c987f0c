"""docs/data.md: its snippets run, print what the page says, and its table of keys is the config's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.data.config import DataConfig
from glassformer.data.reading.named_sets import SETS
from glassformer.data.tokenizers.base import TOKENIZERS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "data.md").read_text(encoding="utf-8")


def run(name: str, folder: Path) -> str:
    code = (DOCS / "snippets" / name).read_text(encoding="utf-8")
    assert f"\n{code}```\n" in PAGE
    (folder / "bin").mkdir()
    (folder / "bin" / "glassformer").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m glassformer "$@"\n', encoding="utf-8")
    (folder / "bin" / "glassformer").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(DOCS.parent / "src"),
    }
    words = ["sh", "-e"] if name.endswith(".sh") else [sys.executable]
    words.append(str(DOCS / "snippets" / name))
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_snippet_prints_what_the_page_says(tmp_path: Path) -> None:
    assert f"```text\n{run('data_python.py', tmp_path)}```" in PAGE


def test_the_commands_work(tmp_path: Path) -> None:
    shown = run("data_command.sh", tmp_path)
    assert "--- 2: lines.txt, line 2\nAnother line.\n" in shown
    assert "standard input (word" in shown
    assert (tmp_path / "lengths.svg").is_file()


def test_the_tables_name_what_there_is() -> None:
    keys = set(re.findall(r"`data\.(\w+)`", PAGE))
    assert set(DataConfig.model_fields) == keys
    for name in [*SETS, *TOKENIZERS.names()]:
        assert f"| `{name}` |" in PAGE


@pytest.mark.parametrize("kind", ["char", "word"])
def test_the_settings_of_tokenizers_are_those_of_the_page(kind: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind}` |"))
    assert set(TOKENIZERS.get(kind).model_fields) == set(re.findall(r"`(\w+)`", row.split("|")[3]))
