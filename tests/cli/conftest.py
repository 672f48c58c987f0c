"""The command line inside the tests' own process: words in; exit code, standard output and standard error out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from glassformer.cli.main import run


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on standard output: nothing before it, nothing after it."""
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line that says what went wrong."""
        lines = [line for line in self.err.splitlines() if line.startswith("Error: ")]
        assert len(lines) == 1, self.err
        assert self.err.splitlines()[-1] == lines[0]
        assert "Traceback" not in self.err
        return lines[0]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def call(*words: object) -> Answer:
        capsys.readouterr()
        code = run([str(word) for word in words])
        return Answer(code, *capsys.readouterr())

    return call
