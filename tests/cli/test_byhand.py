from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from tests.refusals import refused
from typer.testing import CliRunner

from glassformer.cli.byhand import command
from glassformer.foundation.errors import ConfigError, DataError, UsageError

app = typer.Typer()
app.command()(command)


def _run(*words: str):
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def _json(*words: str):
    return json.loads(_run(*words, "--json").stdout)


def test_solves_from_the_command_line():
    document = _json("select", "1", "--keys", "-1,0;0,1;2,2", "--bound", "5", "--values", "1;2;3")
    assert document["reachable"] is True
    assert document["length"] == pytest.approx(5)
    assert len(document["output"]) == 1
    text = _run("select", "2", "--keys", "1,1;0,0;-1,-1").stdout
    assert text.startswith("select 2: not possible, because key 2 = 1/2 key 1 + 1/2 key 3 (exactly).")


def test_replaces_a_key_from_the_command_line():
    document = _json("select", "4", "--keys", "worked", "--replace", "4", "--query", "-1,2,3", "--length", "1")
    np.testing.assert_allclose(document["key"], np.array([-1, 2, 3]) / 14**0.5, atol=1e-12)


def test_explores_with_settings_and_seed():
    document = _json("copying", "--set", "n=5", "--set", "beta=3", "--seed", "2")
    assert document["settings"] == {"n": 5, "d": 16, "beta": 3, "seed": 2}


def test_lists_everything_without_a_problem():
    assert "outer-products" in _run().stdout
    assert {row["name"] for row in _json()["goals"]} == {"select", "identity", "average", "weights"}


def test_a_file_and_a_flag_that_overrides_it(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text("goal: average 1,2\nkeys: [[1, 0], [0, 1], [-1, -1]]\nbound: 3\n")
    assert _json(str(file))["problem"]["bound"] == 3
    assert _json(str(file), "--bound", "4")["problem"]["bound"] == 4
    file.write_text("explore: heads\nsettings: {draws: 20, n: 4}\n")
    assert _json(str(file), "--set", "draws=30")["settings"]["draws"] == 30


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.html", b"<!doctype html>")])
def test_writes_the_picture_and_keeps_standard_output_clean(tmp_path: Path, name: str, start: bytes):
    result = _run("average", "1,2", "--keys", "1,0;0,1;-1,-1", "--out", str(tmp_path / name), "--json")
    json.loads(result.stdout)
    assert "Picture" in result.stderr
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("words", "error", "reason"),
    [
        (["selct", "1"], ConfigError, "unknown-name"),
        (["select", "1"], ConfigError, "no-keys"),
        (["select", "1", "--keys", "1,2;3"], ConfigError, "ragged-rows"),
        (["select", "1", "--keys", "nan;1"], ConfigError, "not-finite"),
        (["average", "--keys", "1;2"], ConfigError, "no-key-named"),
        (["select", "1", "--keys", "1;2", "--bound", "0"], ConfigError, "bad-length"),
        (["select", "1", "--keys", "no.npy"], DataError, "missing-file"),
        (["select", "1", "--keys", "1;2", "--out", "a.pdf"], UsageError, "bad-picture-name"),
        (["select", "1", "--keys", "1;2", "--set", "n=3"], ConfigError, "settings-with-goal"),
    ],
)
def test_mistakes_get_a_sentence(words, error, reason):
    with refused(error, reason):
        _run(*words)


def test_a_setting_needs_a_value():
    with refused(ConfigError, "not-an-assignment", "key=value"):
        _run("copying", "--set", "n")


def test_help_does_not_load_torch():
    program = (
        "import sys, typer\nfrom typer.testing import CliRunner\nfrom glassformer.cli.byhand import command\n"
        "app = typer.Typer(); app.command()(command)\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ, timeout=300)


DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```(\w+)\n(?:# (docs/snippets/\S+)\n)?(.*?)```", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]\d+)?(?![\w])")


def _printed_by(snippet: Path) -> str:
    text = snippet.read_text(encoding="utf-8")
    if snippet.suffix == ".py":
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            runpy.run_path(str(snippet))
        return stream.getvalue()
    for name, content in re.findall(r"cat > (\S+) <<'YAML'\n(.*?)YAML\n", text, re.DOTALL):
        Path(name).write_text(content)
    lines = [shlex.split(line) for line in text.splitlines() if line.startswith("glassformer byhand")]
    return "".join(_run(*words[2:]).stdout for words in lines)


@pytest.mark.parametrize("page", sorted((DOCS / "byhand").glob("*.md")), ids=lambda page: page.stem)
def test_the_docs_show_what_their_snippets_print(page: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert len(blocks) >= (0 if page.stem == "questions" else 2)  # those are answered on paper
    for (_, name, code), (kind, _, shown) in zip(blocks[::2], blocks[1::2], strict=True):
        assert kind == "text"
        assert code == (DOCS.parent / name).read_text(encoding="utf-8"), f"{page.name} and {name} differ"
        printed = _printed_by(DOCS.parent / name)
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown), f"{name} prints other words than {page.name} shows"
        ours, theirs = ([float(x) for x in NUMBER.findall(text)] for text in (printed, shown))
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-9, err_msg=name)
