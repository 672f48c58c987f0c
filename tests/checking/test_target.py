"""What a user can name is found and checked: recipes, runs, callables in files, folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.refusals import refused
from torch import Tensor, nn

from glassformer.checking.target import callable_in_file, check
from glassformer.experiment import train
from glassformer.foundation.errors import ConfigError, DataError, UsageError
from glassformer.model.slots import MERGES

FILE = """
import torch
from torch import nn

table = torch.randn(7, 7, generator=torch.Generator().manual_seed(0))

def honest(ids):
    return table[ids].cumsum(1)

def leaky(ids):
    return table[ids].flip(1).cumsum(1).flip(1)

def factory():
    return honest

class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 7)
    def forward(self, ids):
        return self.embedding(ids)

made = Module()
number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def recipe(tmp_path: Path, **model: Any) -> dict[str, Any]:
    text = tmp_path / "text.txt"
    text.write_text("a cat sat on a mat and saw a rat\n" * 60, encoding="utf-8")
    return {
        "data": {"path": str(text)},
        "model": {"width": 8, "heads": 2, "layers": 1, "context": 8, **model},
        "training": {"steps": 2, "batch_size": 4, "lr": 1e-3},
    }


@pytest.mark.parametrize("name", ["honest", "factory", "Module", "made"])
def test_callable_of_a_file_passes(file: Path, name: str) -> None:
    assert check(f"{file}:{name}", context=9).passed


def test_callable_of_a_file_that_leaks(file: Path) -> None:
    report = check(f"{file}:leaky", context=9)
    assert [finding.law for finding in report.findings] == ["causality"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("absent", r"has no 'absent' .*; it has honest, leaky, factory, Module"),
        ("number", "number is int; give a function"),
    ],
)
def test_what_is_not_there_is_said(file: Path, name: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        callable_in_file(f"{file}:{name}")


def test_files_that_are_not_there_or_do_not_run(tmp_path: Path) -> None:
    with refused(UsageError, "no-such-file"):
        check(f"{tmp_path}/none.py:f")
    (tmp_path / "bad.py").write_text("1 / 0", encoding="utf-8")
    with refused(UsageError, "file-failed", "ZeroDivisionError"):
        check(f"{tmp_path}/bad.py:f")
    with refused(UsageError, "no-callable-named"):  # not "not valid YAML"
        check(f"{tmp_path}/bad.py")


def test_recipe_with_changes_and_its_run(tmp_path: Path) -> None:
    values = recipe(tmp_path)
    assert check(values).passed
    report = check(values, set={"model.merge": "reweight"})
    assert report.broken == {"causality", "batch"}
    run = train(values, out=tmp_path / "run")
    assert check(run.folder).passed
    with refused(UsageError, "set-without-recipe"):
        check(run.folder, set={"model.width": 4})
    with pytest.raises(ConfigError):
        check("no-such-recipe")


def test_a_plugin_is_loaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MERGES.names()
    monkeypatch.setattr(MERGES, "_variants", dict(MERGES._variants))  # forgotten after the test
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "from glassformer.model.slots import MERGES, MergeConfig\n"
        "from glassformer.model.merges.concat import Concat\n"
        "@MERGES.variant('plain_for_check')\n"
        "class Plain(MergeConfig):\n"
        "    '''The heads as they are.'''\n"
        "    def build(self, dims):\n"
        "        return Concat()\n",
        encoding="utf-8",
    )
    values = recipe(tmp_path, merge="plain_for_check")
    with refused(ConfigError, "unknown-name", "plain_for_check"):
        check(values)
    assert check(values, plugins=[plugin]).passed


def test_models_and_functions_pass_through() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 5)

        def forward(self, ids_BT: Tensor) -> Tensor:
            return self.embedding(ids_BT) + self.embedding(ids_BT[:, -1:])

    torch.manual_seed(0)
    assert check(Last(), vocabulary=5, context=6).broken == {"causality"}


@pytest.mark.parametrize("there", [True, False])
def test_a_run_that_is_not_there_is_not_looked_for_on_the_hub(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("glassformer.checking.target.load_hub", lambda name: pytest.fail("the hub was asked"))
    if there:
        (tmp_path / "runs").mkdir()
    with refused(DataError, "no-such-run", "runs/none"):
        check("runs/none")
