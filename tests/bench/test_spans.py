"""bench/spans.py in short form: both forms are trained, asked about the same people, and written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.bench_scripts import load_script


@pytest.mark.slow
def test_both_forms_are_asked(tmp_path: Path) -> None:
    words = ["--seeds", "0", "--people", "40", "--steps", "4", "--fine", "2"]
    found = load_script("spans").main(["--out", str(tmp_path / "spans.json"), *words])
    assert found.keys() == {"row", "pair"}
    written = json.loads((tmp_path / "spans.json").read_text())["forms"]
    assert written == found
    assert all(
        0 <= one["exact answers"] <= 1 and one["loss of the spans"] > 0 for form in found.values() for one in form.values()
    )
