"""Awkward inputs through every verb: one sentence, the right exit code, nothing lost, never a bug in Glassformer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glassformer.cli.main import run

VERBS = {
    "train": ["train", "X", "--out", "new-run"],
    "train resume": ["train", "X", "--resume"],
    "train dry": ["train", "X", "--dry-run"],
    "evaluate": ["evaluate", "X"],
    "generate": ["generate", "X", "hello"],
    "ask": ["ask", "X", "Who?"],
    "report": ["report", "X"],
    "report two": ["report", "X", "X", "--out", "page.html"],
    "export": ["export", "X", "exported"],
    "import": ["import", "X", "--out", "imported"],
    "check": ["check", "X"],
    "conformance": ["check", "--conformance", "X"],
    "compare": ["compare", "X", "--vary", "model.layers=1,2", "--out", "study"],
    "confirm": ["compare", "--confirm", "X"],
    "verify-resume": ["verify-resume", "X"],
    "runs": ["runs", "X"],
    "data show": ["data", "show", "X"],
    "data stats": ["data", "stats", "X"],
    "tokenizer show": ["tokenizer", "show", "X"],
    "tokenizer encode": ["tokenizer", "encode", "X", "hello"],
    "tokenizer decode": ["tokenizer", "decode", "X", "1"],
    "tokenizer train": ["tokenizer", "train", "X", "--vocab", "300", "--out", "tok.json"],
    "plugin": ["recipes", "NAME", "--plugin", "X"],
    "byhand": ["byhand", "X"],
}
PLACES = ("missing.yaml", "empty.yaml", "empty.txt", "binary.txt", "list.yaml", "folder", "dangling", "loop", "archive.txt")
FINE = {("runs", "folder"), ("data stats", "list.yaml"), ("tokenizer train", "list.yaml")}
"""An empty folder holds no runs: that is an answer. A recipe is a text too, for those who want to count its words."""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that people hand in by mistake."""
    for name in ("empty.yaml", "empty.txt"):
        (tmp_path / name).touch()
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "list.yaml").write_text("- one\n- two\n", encoding="utf-8")
    (tmp_path / "archive.txt").write_bytes(b"PK\x03\x04")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def ends_well(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str], codes: tuple[int, ...]) -> str:
    """Runs the words; gives the sentence."""
    before = names(folder)
    code = run(words)
    out, err = capsys.readouterr()
    assert code in codes, (code, err)
    assert "bug in Glassformer" not in err
    assert "Traceback" not in err
    assert out == "" or words[0] == "runs"
    sentences = [line for line in err.splitlines() if line.startswith("Error: ")]
    if "Usage: " not in err:
        assert len(sentences) == 1, err
        assert err.splitlines()[-1] == sentences[0]
    assert names(folder) == before
    return sentences[-1] if sentences else err


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("verb", VERBS)
def test_places(desk, capsys, verb: str, place: str) -> None:
    words = [place if word == "X" else word for word in VERBS[verb]]
    if (verb, place) in FINE:
        assert run(words) == 0
        return
    assert ends_well(words, desk, capsys, (1, 2))


TRAIN = ["train", "tiny.yaml", "--out", "run"]
RECIPES = {
    "layers=2": "Did you mean 'model.layers'?",
    "training.learning_rate=1": "Did you mean 'training.lr'?",
    "model.widht=8": "Did you mean 'width'?",
    "model.width=0": "model.width=0",
    "model.width=-8": "model.width=-8",
    "model.width=8.5": "model.width=8.5",
    "model.width=eight": "model.width='eight'",
    "model.width=": "model.width=None",
    "model.width=[8]": "model.width=[8]",
    "model.width=1e400": "model.width",
    "model.heads=3": "does not divide",
    "model.heads=0": "model.heads=0",
    "model.layers=-1": "model.layers=-1",
    "model.context=0": "model.context=0",
    "model.dropout=1": "model.dropout=1",
    "model.dropout=.nan": "model.dropout",
    "model.positions=alibbi": "Did you mean 'alibi'?",
    "model.mixer.kind=dott": "Did you mean 'dot'?",
    "model.positions={kind: 7}": "model.positions",
    "model=gpt": "",
    "model.kind=gpt": "",
    "training.steps=0": "training.steps=0",
    "training.steps=-5": "training.steps=-5",
    "training.steps=many": "training.steps='many'",
    "training.batch_size=0": "training.batch_size=0",
    "training.batch_size=3": "does not divide",
    "training.lr=0": "training.lr=0",
    "training.lr=-1": "training.lr=-1",
    "training.lr=.inf": "training.lr",
    "training.optimizer=adan": "Did you mean",
    "training.schedule=cosin": "Did you mean 'cosine'?",
    "training.precision=fp16": "training.precision='fp16'",
    "training.device=gpu": "",
    "training.device=cuda:99": "",
    "objective=next_token": "Did you mean 'next-token'?",
    "evaluation.by=acuracy": "metric has no 'acuracy'",
    "evaluation.every=0": "evaluation.every=0",
    "checkpoint.keep=1": "checkpoint.keep=1",
    "seed=-1": "seed=-1",
    "seed=x": "seed='x'",
    "data.path=missing.txt": "missing.txt",
    "data.path=folder": "folder",
    "data.path=binary.txt": "binary.txt",
    "data.path=empty.txt": "empty.txt",
    "data.path=archive.txt": "zip archive",
    "data.path=dangling": "dangling",
    "data.path=loop": "loop",
    "data.path=": "",
    "data.set=wikitext": "",
    "data.split.validation=1": "data.split.validation=1",
    "data.split={validation: .6, test: .5}": "leave nothing to train on",
    "data.document=page": "data.document='page'",
    "data.text_column=0": "",
    "tokenizer=bpee": "Did you mean 'bpe'?",
    "tokenizer.file=missing.json": "",
    "init_from=nowhere": "",
    "init_from=folder": "",
    "=3": "key=value",
    "model..width=3": "",
    "model.width.x=3": "",
    "model.width": "key=value",
    "a.b.c.d=1": "",
    "model.width=[": "",
    "model.width=!!python/name:os.system x": "",
}


@pytest.mark.parametrize("setting", RECIPES)
def test_settings(desk, tiny_file, capsys, setting: str) -> None:
    assert RECIPES[setting] in ends_well([*TRAIN, "--set", setting], desk, capsys, (1, 2))


WORDS = [
    ["trian", "docstrings-char"],
    ["train"],
    ["train", "docstring-char"],
    ["train", "recipes/docstrings-char.yaml"],
    ["train", "tiny.yaml", "--stepz", "3"],
    ["train", "tiny.yaml", "--seed", "x"],
    ["train", "tiny.yaml", "--set", "seed=1", "--set", "seed=2"],
    ["train", "tiny.yaml", "--out", "empty.txt"],
    ["train", "tiny.yaml", "--out", "empty.txt/run"],
    ["train", "tiny.yaml", "--out", "loop"],
    ["train", "tiny.yaml", "--out", "x" * 300],
    ["train", "tiny.yaml", "--plugin", "missing.py"],
    ["train", "tiny.yaml", "--resume"],
    ["train", "tiny.yaml", "--resume", "--out", "runn"],
    ["evaluate", "folder", "--split", "tset"],
    ["evaluate", "folder", "--checkpoint", "newest"],
    ["generate", "folder", "--temperature", "-1"],
    ["generate", "folder", "hi", "--prompts", "empty.txt"],
    ["compare", "positons"],
    ["compare", "tiny.yaml"],
    ["compare", "tiny.yaml", "--vary", "model.layers"],
    ["compare", "tiny.yaml", "--vary", "model.layers=1", "--out", "study"],
    ["compare", "tiny.yaml", "--vary", "layers=2,3", "--out", "study"],
    ["compare", "tiny.yaml", "--vary", "seed=1,2", "--out", "study"],
    ["compare", "tiny.yaml", "--vary", "model.layers=2", "--seeds", "1", "--out", "study"],
    ["compare", "tiny.yaml", "--vary", "model.layers=2", "--metric", "perplexity", "--out", "study"],
    ["compare", "tiny.yaml", "--vary", "model.layers=2", "--margin", "-1", "--out", "study"],
    ["compare", "tiny.yaml", "--vary", "model.layers=2", "--looks", "a,b", "--out", "study"],
    ["compare", "tiny.yaml", "--vary", "tokenizer=byte", "--seeds", "2", "--out", "study"],
    ["compare"],
    ["check", "missing.py:f"],
    ["check", "tiny.yaml:f"],
    ["check", "tiny.yaml", "--set", "model.causal=false", "--encoder"],
    ["data", "show", "nothing-here"],
    ["data", "stats", "tiny.yaml", "--tokenizer", "bpee"],
    ["tokenizer", "train", "missing.txt", "--out", "tok.json"],
    ["tokenizer", "train", "tiny.yaml", "--kind", "bpee", "--out", "tok.json"],
    ["tokenizer", "train", "tiny.yaml", "--vocab", "-3", "--out", "tok.json"],
    ["tokenizer", "train", "tiny.yaml", "--out", "empty.txt"],
    ["tokenizer", "decode", "empty.txt", "a"],
    ["runs", "missing"],
    ["runs", "folder", "--note", "hi"],
    ["runs", "folder", "--metrics"],
    ["byhand", "selekt", "1"],
    ["byhand", "select", "9", "--keys", "1,0;0,1"],
    ["byhand", "select", "1"],
    ["byhand", "select", "1", "--keys", "1,0;0"],
    ["byhand", "select", "1", "--keys", "1,0;0,1", "--out", "picture.gif"],
    ["import", "folder", "--out", "imported"],
    ["recipes", "docstring"],
    ["bench", "attention", "--lengths", "a"],
]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_words(desk, tiny_file, capsys, words: list[str]) -> None:
    assert ends_well(words, desk, capsys, (1, 2))


def test_there_are_two_hundred() -> None:
    assert len(VERBS) * len(PLACES) + len(RECIPES) + len(WORDS) >= 200
