"""Tokenizer files: what was saved comes back; damaged and foreign files are sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.tokenizers import files
from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.data.tokenizers.char import CharTokenizer
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.data.tokenizers.word import WordTokenizer
from glassformer.foundation.errors import DataError


@pytest.mark.parametrize(
    "tokenizer",
    [ByteTokenizer(), CharTokenizer("\nab戦😀"), WordTokenizer(["a", "b"], lowercase=True, marks=False, dropped=7)],
    ids=lambda tokenizer: tokenizer.kind,
)
def test_what_was_saved_comes_back(tmp_path: Path, tokenizer: Any) -> None:
    tokenizer.save(tmp_path / "tok.json")
    loaded = load_tokenizer(tmp_path / "tok.json")
    assert type(loaded) is type(tokenizer)
    assert loaded.settings() == tokenizer.settings()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{oops", "is not valid JSON"),
        ("[]", "not an object"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"a": 1}', "no tokenizer: neither"),
        ('{"glassformer_tokenizer": "char", "schema": 9}', "has schema 9; this version of glassformer reads schema 1"),
        ('{"glassformer_tokenizer": "chr", "schema": 1, "settings": {}}', "Did you mean 'char'"),
        ('{"glassformer_tokenizer": ["char"], "schema": 1, "settings": {}}', "holds a tokenizer of kind"),
        ('{"glassformer_tokenizer": "char", "schema": 1}', "has no settings"),
        ('{"glassformer_tokenizer": "char", "schema": 1, "settings": {"characters": "ba"}}', "in the order"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "tok.json"
    file.write_text(content)
    with pytest.raises(DataError, match=rf"tok.json: .*{said}"):
        load_tokenizer(file)


def test_a_missing_and_a_huge_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load_tokenizer(tmp_path / "none.json")
    file = tmp_path / "tok.json"
    file.write_text(json.dumps({"model": "x" * 3000}))
    monkeypatch.setattr(files, "MAX_BYTES", 2000)
    with pytest.raises(DataError, match="is larger than"):
        load_tokenizer(file)
