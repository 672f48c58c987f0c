"""docs/bpe.md: what its snippets print is what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["bpe_by_hand.py", "bpe_command.sh", "bpe_recipe.py"])
def test_snippets_print_what_the_page_says(name: str, tmp_path: Path) -> None:
    page, snippet = (DOCS / "bpe.md").read_text(encoding="utf-8"), DOCS / "snippets" / name
    code = snippet.read_text(encoding="utf-8")
    assert f"\n{code}```\n" in page
    programs = tmp_path / "bin"
    programs.mkdir()
    for program, module in (("glassformer", "-m glassformer"), ("python", "")):
        (programs / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n', encoding="utf-8")
        (programs / program).chmod(0o755)
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(DOCS.parent / "src"),
        "PYTHONIOENCODING": "utf-8",
    }
    words = ["sh", "-e", snippet] if name.endswith(".sh") else [sys.executable, snippet]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in page
    if name == "bpe_command.sh":
        assert (tmp_path / "word.svg").is_file()
