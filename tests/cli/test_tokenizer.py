"""The tokenizer commands: one JSON document on standard output, files that Hugging Face reads, errors as sentences."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
from click.testing import Result
from tests.refusals import refused
from typer.testing import CliRunner

from glassformer.cli.tokenizer import app, visible
from glassformer.foundation.errors import ConfigError, DataError, GlassformerError, UsageError

TEXT = "the lower the river, the slower the rower rows\n" * 5


def run(*words: str | Path, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    if isinstance(result.exception, GlassformerError):
        raise result.exception
    return result


def output(*words: str | Path, stdin: str | None = None) -> str:
    result = run(*words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.txt"
    file.write_text(TEXT, encoding="utf-8")
    return file


@pytest.fixture
def tok(corpus: Path, tmp_path: Path) -> Path:
    output("train", corpus, "--vocab", "270", "--out", tmp_path / "tok.json")
    return tmp_path / "tok.json"


def test_train_writes_what_the_library_trains(corpus: Path, tok: Path) -> None:
    judge = tokenizers.Tokenizer(tokenizers.models.BPE())
    judge.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=270,
        min_frequency=2,
        show_progress=False,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    judge.train([str(corpus)], trainer)
    ours = json.loads(tok.read_text(encoding="utf-8"))["model"]
    theirs = json.loads(judge.to_str())["model"]
    assert (ours["merges"], ours["vocab"]) == (theirs["merges"], theirs["vocab"])


@pytest.mark.parametrize("kind", ["bpe", "char", "word", "byte"])
def test_every_kind_trains_encodes_decodes_and_shows(kind: str, corpus: Path, tmp_path: Path) -> None:
    tok = tmp_path / "tok.json"
    report = json.loads(output("train", corpus, "--vocab", "300", "--kind", kind, "--out", tok, "--json"))
    assert (report["kind"], report["file"]) == (kind, str(tok))
    ids = json.loads(output("encode", tok, "the rower", "--json"))["ids"]
    assert json.loads(output("decode", tok, *map(str, ids), "--json"))["text"] == "the rower"
    facts = json.loads(output("show", tok, "--json"))
    assert facts["size"] == report["size"]
    assert "longest tokens" in output("show", tok, "--file", corpus)
    (word,) = json.loads(output("show", tok, "the", "--json"))["words"]
    assert word["ids"] == json.loads(output("encode", tok, "the", "--json"))["ids"]


def test_levels_and_settings(corpus: Path, tmp_path: Path) -> None:
    output("train", corpus, "--vocab", "60", "--level", "char", "--set", "special=[]", "--out", tmp_path)
    model = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    assert (model["end_of_word_suffix"], model["unk_token"]) == ("</w>", "<unk>")
    assert output("decode", tmp_path, output("encode", tmp_path, "the  rower")) == "the rower\n"


def test_a_text_too_small_for_the_vocabulary_is_said(corpus: Path, tmp_path: Path) -> None:
    result = run("train", corpus, "--vocab", "5000", "--out", tmp_path / "tok.json")
    assert "tokens, not 5,000" in result.stderr
    assert "not 5,000" not in result.stdout


def test_encode_takes_a_text_a_file_or_standard_input(tok: Path, corpus: Path) -> None:
    from_file = json.loads(output("encode", tok, "--file", corpus, "--json"))["ids"]
    assert from_file == json.loads(output("encode", tok, TEXT, "--json"))["ids"]
    assert from_file == json.loads(output("encode", tok, "--json", stdin=TEXT))["ids"]
    assert output("encode", tok, TEXT).split() == [str(token) for token in from_file]


def test_decode_takes_ids_in_any_common_writing(tok: Path) -> None:
    ids = output("encode", tok, "the river").split()
    assert len(ids) > 1
    for words in (ids, [" ".join(ids)], [",".join(ids)], [f"[{', '.join(ids)}]"]):
        assert output("decode", tok, *words) == "the river\n"
    assert output("decode", tok, stdin=" ".join(ids)) == "the river\n"


def test_show_lists_merges_in_order(tok: Path, corpus: Path) -> None:
    facts = json.loads(output("show", tok, "--json", "--file", corpus))
    assert [merge["rank"] for merge in facts["merges"]] == list(range(1, 270 - 257 + 1))
    assert facts["bytes_per_token"]["text"] > 2
    assert facts["never_produced"]
    shown = output("show", tok, "--limit", "3", "--file", corpus)
    assert "... and 10 more (--limit 0 lists all)" in shown
    assert "never produced by this text" in shown
    assert "more (" not in output("show", tok, "--limit", "0")


def test_show_follows_a_word_as_text_and_picture(tok: Path, tmp_path: Path) -> None:
    picture = tmp_path / "word.svg"
    lines = output("show", tok, " the", "--out", picture).splitlines()
    assert lines[0] == "␣the"
    assert lines[1].split() == ["symbols", "␣", "t", "h", "e"]
    assert lines[-2].split()[0] == "ids"
    assert len(json.loads(output("show", tok, " the", "--json"))["words"][0]["steps"]) == len(lines) - 4
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_mistakes_are_refused(tok: Path, corpus: Path, tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty.txt", tmp_path / "binary.txt"
    empty.write_bytes(b"")
    binary.write_bytes(b"fine\nb\xffad\n")
    out = tmp_path / "new.json"
    mistakes: list[tuple[type[GlassformerError], str, list[str | Path]]] = [
        (DataError, "nothing-to-learn", ["train", empty, "--vocab", "300", "--out", out]),
        (DataError, "not-utf8", ["train", binary, "--vocab", "300", "--out", out]),
        (DataError, "unreadable", ["train", tmp_path / "none.txt", "--vocab", "300", "--out", out]),
        (ConfigError, "bad-value", ["train", corpus, "--vocab", "100", "--out", out]),
        (ConfigError, "unknown-name", ["train", corpus, "--kind", "bqe", "--out", out]),
        (ConfigError, "bad-value", ["train", corpus, "--level", "bite", "--out", out]),
        (UsageError, "two-texts", ["encode", tok, "x", "--file", corpus]),
        (DataError, "not-json", ["encode", corpus, "x"]),
        (UsageError, "not-an-id", ["decode", tok, "1", "x"]),
        (DataError, "id-out-of-range", ["decode", tok, "270"]),
        (UsageError, "picture-without-word", ["show", tok, "--out", tmp_path / "word.svg"]),
        (UsageError, "several-words", ["show", tok, "the row", "--out", tmp_path / "word.svg"]),
        (UsageError, "unknown-figure-format", ["show", tok, "the", "--out", tmp_path / "word.doc"]),
    ]
    for error, reason, words in mistakes:
        with refused(error, reason):
            run(*words)
    assert not out.exists()


def test_signs_that_cannot_be_seen_are_shown() -> None:
    assert visible(" a\n\x00é") == "␣a\\n\\x00é"


def test_imports_no_torch() -> None:
    code = "import sys, glassformer.cli.tokenizer, glassformer.data.tokenizers.inspection; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
