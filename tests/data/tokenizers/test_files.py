"""Loading: every kind comes back from its file; what is no tokenizer is refused with a sentence that names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.tokenizers import files
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.foundation.errors import DataError

TEXT = "the lower the river, the slower the rower\n"


@pytest.mark.parametrize("kind", sorted(set(TOKENIZERS.names()) - {"file"}))
def test_every_kind_comes_back(kind: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS.parse(kind).train(lambda: [TEXT] * 4)
    tokenizer.save(tmp_path / "tokenizer.json")
    for place in (tmp_path, tmp_path / "tokenizer.json", str(tmp_path)):
        again = load_tokenizer(place)
        assert type(again) is type(tokenizer)
        assert (again.size, again.settings()) == (tokenizer.size, tokenizer.settings())
        assert again.encode(TEXT) == tokenizer.encode(TEXT)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b'{"model": {"vocab": {"a"', "not valid JSON .*make it or fetch it again"),
        (b"\xff\xfe\x00", "not valid JSON .*make it or fetch it again"),
        (b"", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[1, 2]", "not an object"),
        (b"{}", "no tokenizer: neither .* make one with `glassformer tokenizer train`"),
        (b'{"model": "gpt2"}', "no tokenizer: neither"),
        (b'{"model": {"type": "BPE"}}', "not a tokenizer.json that can be used"),
        (b'{"glassformer_tokenizer": "char", "schema": 2, "settings": {}}', "schema 2"),
        (b'{"glassformer_tokenizer": "chat", "schema": 1, "settings": {}}', "Did you mean 'char'"),
        (b'{"glassformer_tokenizer": ["char"], "schema": 1, "settings": {}}', "kind"),
        (b'{"glassformer_tokenizer": "char", "schema": 1}', "no settings"),
        (b'{"glassformer_tokenizer": "bpe", "schema": 1, "settings": {}}', "settings that a bpe tokenizer cannot be made from"),
        (b'{"glassformer_tokenizer": "bpe", "schema": 1, "settings": {"document": 3}}', "need a 'document'"),
    ],
)
def test_what_is_no_tokenizer_is_a_sentence(content: bytes, rule: str, tmp_path: Path) -> None:
    file = tmp_path / "tok.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match=rule) as error:
        load_tokenizer(file)
    assert str(error.value).startswith(str(file))


def test_a_missing_file_and_a_folder_without_one_are_sentences(tmp_path: Path) -> None:
    for place in (tmp_path / "none.json", tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            load_tokenizer(place)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    (tmp_path / "tok.json").write_text('{"model": {}}', encoding="utf-8")
    with pytest.raises(DataError, match="is larger than"):
        load_tokenizer(tmp_path / "tok.json")


def test_every_flipped_byte_is_a_tokenizer_or_a_sentence(tmp_path: Path) -> None:
    """Damage anywhere gives a DataError or a file that still makes sense; never a traceback of the library."""
    tokenizer = TOKENIZERS.parse({"kind": "bpe", "vocab": 262}).train(lambda: [TEXT])
    file = tmp_path / "tok.json"
    tokenizer.save(file)
    whole = json.dumps(json.loads(file.read_text(encoding="utf-8"))).encode()
    refused = 0
    for place in range(0, len(whole), 23):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
        try:
            load_tokenizer(file).encode(TEXT)
        except DataError:
            refused += 1
    assert refused > 20


def test_added_tokens_that_contradict_the_vocabulary(tmp_path: Path) -> None:
    tokenizer = TOKENIZERS.parse({"kind": "bpe", "vocab": 262}).train(lambda: [TEXT])
    document: dict[str, Any] = tokenizer.settings()["document"]
    document["added_tokens"][0]["id"] = 5
    (tmp_path / "tok.json").write_text(json.dumps(document), encoding="utf-8")
    loaded = load_tokenizer(tmp_path / "tok.json")
    assert loaded.kind == "huggingface"  # the library has its own rule for this, so its ids count
