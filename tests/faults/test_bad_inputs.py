"""Mistakes and hostile files through the command line: one sentence with the remedy, the exit code, nothing half-written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.cli.main import run
from glassformer.foundation.yaml_text import dump_yaml

pytestmark = pytest.mark.usefixtures("unchecked")


def text(content: bytes):
    def change(recipe: dict[str, Any], folder: Path) -> str:
        (folder / "bad.txt").write_bytes(content)
        recipe["data"].update(path=str(folder / "bad.txt"), split={"validation": 0.0})
        return dump_yaml(recipe)

    return change


def setting(section: str, **values: Any):
    def change(recipe: dict[str, Any], folder: Path) -> str:
        recipe[section].update(values)
        return dump_yaml(recipe)

    return change


def raw(content: str):
    return lambda recipe, folder: content


CASES = {
    "a misspelt key": (setting("model", widht=8), 2, "'model.widht'. Did you mean 'width'?"),
    "a wrong type": (setting("model", width="wide"), 2, "model.width='wide' is not accepted"),
    "heads that do not divide": (setting("model", width=100, heads=8), 2, "model.heads=8 does not divide model.width=100; use"),
    "an impossible size": (setting("model", width=10**15), 2, "model.width=1000000000000000 is not accepted"),
    "a corpus shorter than the context": (text(b"too short\n"), 1, "needs at least 17"),
    "one line": (text(b"x"), 1, "needs at least 17"),
    "invalid UTF-8": (text(b"a good line\n" * 50 + b"a bad \xff line\n"), 1, "line 51"),
    "NUL bytes": (text(b"a good line\n" * 50 + b"a bad \0 line\n"), 1, "line 51"),
    "an empty file": (text(b""), 1, "empty"),
    "only blank lines": (text(b"\n\n\n"), 1, "bad.txt"),
    "a missing file": (setting("data", path="/no/such/file.txt"), 1, "/no/such/file.txt"),
    "a deep YAML": (raw("data: " + "[" * 5000), 2, "levels of nesting"),
    "a YAML that refers to itself": (raw("data: &d\n  set: *d\n"), 2, "aliases"),
    "a billion laughs": (raw("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n"), 2, "aliases"),
    "a key given twice": (raw("seed: 1\nseed: 2\n"), 2, "the key 'seed' is given twice"),
    "code in a recipe": (raw("data: !!python/object/apply:os.system ['true']\n"), 2, "tags"),
    "not a recipe": (raw("just text\n"), 2, "is not a recipe"),
    "control characters": (raw("a: \x01\n"), 2, "not valid YAML"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_the_code_and_nothing_half_written(tiny, tmp_path, capsys, case: str) -> None:
    change, code, words = CASES[case]
    (tmp_path / "recipe.yaml").write_text(change(tiny, tmp_path), encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert run(["train", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "run")]) == code
    out, err = capsys.readouterr()
    (sentence,) = [line for line in err.splitlines() if line.startswith("Error: ")]
    assert words in sentence
    assert err.splitlines()[-1] == sentence
    assert out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_used_folder(tiny_file, tmp_path, capsys) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    assert run(["train", str(tiny_file), "--out", str(tmp_path / "run")]) == 1
    assert "is not empty. Continue its run with --resume, or choose another folder with --out." in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]


def test_the_folder_is_a_file(tiny_file, tmp_path, capsys) -> None:
    (tmp_path / "run").write_text("mine")
    assert run(["train", str(tiny_file), "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert "is not a folder" in said
    assert "--out" in said
    assert (tmp_path / "run").read_text() == "mine"
