"""docs/checks.md and docs/plugins.md: the snippets stand in the pages as they are, run, and print what the pages say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SNIPPETS = {
    "check_function.py": "checks.md",
    "my_attention.py": "plugins.md",
    "my_attention_conforms.py": "plugins.md",
    "my_attention.sh": "plugins.md",
}


@pytest.mark.parametrize(("snippet", "page"), SNIPPETS.items())
def test_snippet_stands_in_its_page(snippet: str, page: str) -> None:
    code = (DOCS / "snippets" / snippet).read_text(encoding="utf-8")
    assert code.startswith(f"# docs/snippets/{snippet}\n")
    assert f"\n{code}```\n" in (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("snippet", ["check_function.py", "my_attention_conforms.py"])
def test_prints_what_the_page_says(snippet: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(DOCS.parent / "src")}
    words = [sys.executable, str(DOCS / "snippets" / snippet)]
    printed = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    assert f"```text\n{printed}```\n" in (DOCS / SNIPPETS[snippet]).read_text(encoding="utf-8")


def test_plugin_is_checked_trained_and_talked_to(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "glassformer").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m glassformer "$@"\n', encoding="utf-8")
    (programs / "glassformer").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(DOCS.parent / "src")}
    (tmp_path / "my_attention.py").write_bytes((DOCS / "snippets" / "my_attention.py").read_bytes())
    words = ["sh", "-e", str(DOCS / "snippets" / "my_attention.sh")]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "the model: passed" in done.stdout
    assert "Validation loss" in done.stdout
