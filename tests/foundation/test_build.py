"""One sum of all our source files, another one when a line changes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from glassformer.foundation.build import code_sha256

PACKAGE = Path(__file__).parents[2] / "src" / "glassformer"
PROGRAM = "from glassformer.foundation.build import code_sha256; print(code_sha256())"


def test_another_line_is_another_sum(tmp_path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "glassformer", ignore=shutil.ignore_patterns("__pycache__"))

    def sum_of_the_copy() -> str:
        command = [sys.executable, "-c", PROGRAM]
        answer = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True)
        return answer.stdout.strip()

    assert sum_of_the_copy() == code_sha256()
    with (tmp_path / "glassformer" / "checking" / "gate.py").open("a", encoding="utf-8") as stream:
        stream.write("# another line\n")
    assert sum_of_the_copy() != code_sha256()
