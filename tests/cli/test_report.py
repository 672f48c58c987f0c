"""``glassformer report``."""

from __future__ import annotations

import shutil


def test_a_page(cli, trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    answer = cli("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert answer.code == 0
    assert answer.out.strip() == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert cli("report", tmp_path / "run", "--json").json == {"report": str(tmp_path / "run" / "report.html")}


def test_what_is_no_run(cli, tmp_path) -> None:
    answer = cli("report", tmp_path)
    assert answer.code == 1
    assert "is not a run" in answer.sentence
