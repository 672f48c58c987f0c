"""Snippets in README and docs are files: each block equals its file, each file is shown, and each runs."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("few_docstrings")
ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs" / "snippets"
BLOCK = re.compile(r"^```\w*\n# docs/snippets/(\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN_ELSEWHERE = re.compile(r"^(bpe|byhand|data|check|my_|generation|reweight|verdict|parity\.py|course|own_.*py)")
"""Run, and compared with what their pages show, by the tests of those pages."""


def blocks() -> list[tuple[str, str, str]]:
    """Page, snippet, text."""
    found = []
    for page in PAGES:
        for name, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            found.append((str(page.relative_to(ROOT)), name, text))
    return found


@pytest.mark.parametrize(("page", "name", "text"), blocks(), ids=lambda value: str(value)[:40])
def test_a_block_is_its_file(page: str, name: str, text: str) -> None:
    code = (SNIPPETS / name).read_text(encoding="utf-8").removeprefix(f"# docs/snippets/{name}\n")
    assert text == code, f"{page} and docs/snippets/{name} differ"


def test_every_file_is_shown_somewhere() -> None:
    shown = {name for _, name, _ in blocks()}
    assert {file.name for file in SNIPPETS.iterdir() if file.is_file()} == shown


def test_code_in_pages_comes_from_files() -> None:
    """A Python block that runs the package is a snippet, or it will be wrong one day."""
    loose = [
        f"{page.relative_to(ROOT)}: {block.splitlines()[0]}"
        for page in PAGES
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        if "import glassformer" in block and not block.startswith("# docs/snippets/")
    ]
    assert loose == []


TAKE_LONG = (
    "huggingface.sh",
    "look.sh",
    "compare.py",
    "compare_command.sh",
    "labels.sh",
    "labels_csv.sh",
    "labels_targets.sh",
    "labels_verdicts.py",
    "parity.sh",
    "own_gru.sh",
    "altered.py",
)
"""Many commands, each of which imports torch anew, or many runs; ``frames.py`` is the quick study."""


def runnable() -> list[Any]:
    names = sorted(file.name for file in SNIPPETS.iterdir() if file.is_file() and not RUN_ELSEWHERE.match(file.name))
    return [pytest.param(name, marks=pytest.mark.slow) if name in TAKE_LONG else name for name in names]


@pytest.mark.parametrize("name", runnable())
def test_it_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for plugin in SNIPPETS.glob("*.py"):  # a reader has the plugin beside her
        shutil.copy(plugin, tmp_path)
    if name.endswith(".py"):  # in this process: importing torch takes longer than most of them
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(sys, "argv", [name])
        runpy.run_path(name, run_name="__main__")
        assert capsys.readouterr().out.strip()
        return
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "glassformer").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m glassformer "$@"\n', encoding="utf-8")
    (programs / "glassformer").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        ["bash", "-e", str(SNIPPETS / name)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_metric_of_ones_own_is_shown_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import glassformer as gf

    monkeypatch.chdir(tmp_path)
    plugin = SNIPPETS / "my_metric.py"
    small = {"model.layers": 1, "model.width": 16, "model.context": 16, "training.steps": 2}
    changes = {**small, "objective": "next-token-and-capitals", "evaluation.by": "capital_loss"}
    run = gf.train("docstrings-char", set=changes, out="run", plugins=[plugin])
    found = run.evaluate()
    assert found.capital_loss > 0
    assert found.metrics["capital_loss"].low < found.capital_loss
    assert any("validation_capital_loss" in record for record in run.records())
