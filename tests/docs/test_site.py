"""The site of the documentation: whole, without a broken link, without anything from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="the extra [docs] is not installed (make docs)")
    pytest.importorskip("material", reason="the extra [docs] is not installed (make docs)")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "-f",
        str(ROOT / "mkdocs.yml"),
        "-d",
        str(tmp_path),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {str(page.relative_to(tmp_path)): page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    loaded = r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(https?:)?//"
    assert [name for name, text in pages.items() if re.search(loaded, text.replace('rel="canonical"', ""))] == []
    assert {"index.html", "commands.html", "reference.html", "recipes.html"} <= set(pages)
    assert {"verify-resume", "data-show"} <= set(re.findall(r'<h[23] id="([^"]+)"', pages["commands.html"]))
    shown = set(re.findall(r'<h[23] id="([^"]+)"', pages["reference.html"] + pages["returns.html"]))
    assert {"glassformer.run.Run.evaluate_texts", "glassformer.run.Run.recipe", "glassformer.prediction.Prediction"} <= shown
