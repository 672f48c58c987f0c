"""docs/checks.md and docs/plugins.md: the snippets stand in the pages as they are, run, and print what the pages say."""

from __future__ import annotations

import runpy
import shlex
from pathlib import Path

import pytest

from glassformer.cli.main import run

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
def test_prints_what_the_page_says(snippet: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "snippets"))  # as when it is run as a script
    runpy.run_path(str(DOCS / "snippets" / snippet), run_name="__main__")
    assert f"```text\n{capsys.readouterr().out}```\n" in (DOCS / SNIPPETS[snippet]).read_text(encoding="utf-8")


def test_plugin_is_checked_trained_and_talked_to(capsys: pytest.CaptureFixture[str]) -> None:
    _, small, *lines = (DOCS / "snippets" / "my_attention.sh").read_text(encoding="utf-8").splitlines()
    name, _, value = small.partition("=")
    for line in lines:
        words = shlex.split(line.replace(f"${name}", value.strip('"')))[1:]
        assert run([str(DOCS / "snippets" / word) if word.endswith(".py") else word for word in words]) == 0, line
    printed = capsys.readouterr().out
    assert "the model: passed" in printed
    assert "Validation loss" in printed
