"""Tokenizer files: every kind comes back, GPT-2's merges are read, what is no tokenizer is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from glassformer.data.tokenizers import files
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.data.tokenizers.bpe import BPETokenizer
from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.data.tokenizers.char import CharTokenizer
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.data.tokenizers.word import WordTokenizer
from glassformer.foundation.errors import ConfigError, DataError

TEXT = "the lower the river, the slower the rower\n"


@pytest.mark.parametrize("kind", sorted(set(TOKENIZERS.names()) - {"file", "two"}))
def test_every_kind_comes_back(kind: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS.parse(kind).train(lambda: [TEXT] * 4)
    tokenizer.save(tmp_path / "tokenizer.json")
    for place in (tmp_path, tmp_path / "tokenizer.json", str(tmp_path)):
        again = load_tokenizer(place)
        assert type(again) is type(tokenizer)
        assert (again.size, again.settings()) == (tokenizer.size, tokenizer.settings())
        assert again.encode(TEXT) == tokenizer.encode(TEXT)


@pytest.mark.parametrize(
    "tokenizer",
    [ByteTokenizer(), CharTokenizer("\nab戦😀"), WordTokenizer(["a", "b"], lowercase=True, marks=False, dropped=7)],
    ids=lambda tokenizer: tokenizer.kind,
)
def test_settings_come_back(tmp_path: Path, tokenizer: Any) -> None:
    tokenizer.save(tmp_path / "tok.json")
    assert load_tokenizer(tmp_path / "tok.json").settings() == tokenizer.settings()


OURS = b'{"glassformer_tokenizer": %s, "schema": 1, "settings": %s}'


@pytest.mark.parametrize(
    ("content", "reason", "named"),
    [
        (b'{"model": {"vocab": {"a"', "not-json", "train or fetch it again"),
        (b"\xff\xfe\x00", "not-json", "tok.json"),
        (b"", "not-json", "tok.json"),
        (b"[" * 100_000, "not-json", "tok.json"),
        (b"[1, 2]", "not-an-object", "tok.json"),
        (b"{}", "no-tokenizer", "`glassformer tokenizer train`"),
        (b'{"model": "gpt2"}', "no-tokenizer", "tok.json"),
        (b'{"model": {"type": "BPE"}}', "unusable-tokenizer-json", "tok.json"),
        (b'{"glassformer_tokenizer": "char", "schema": 2, "settings": {}}', "other-schema", "schema 2"),
        (b'{"glassformer_tokenizer": "char", "schema": 1}', "no-settings", "tok.json"),
        (OURS % (b'"chat"', b"{}"), "unknown-kind", "Did you mean 'char'"),
        (OURS % (b'["char"]', b"{}"), "unknown-kind", "tok.json"),
        (OURS % (b'"char"', b'{"characters": "ba"}'), "bad-settings", "in the order"),
        (OURS % (b'"bpe"', b"{}"), "bad-settings", "bpe"),
        (OURS % (b'"bpe"', b'{"document": 3}'), "bad-settings", "'document'"),
    ],
)
def test_what_is_no_tokenizer_is_refused(content: bytes, reason: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "tok.json"
    file.write_bytes(content)
    with refused(DataError, reason, named) as caught:
        load_tokenizer(file)
    assert str(caught.value).startswith(str(file))


def test_a_missing_file_and_a_folder_without_one_are_sentences(tmp_path: Path) -> None:
    for place in (tmp_path / "none.json", tmp_path):
        with refused(DataError, "unreadable"):
            load_tokenizer(place)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    (tmp_path / "tok.json").write_text('{"model": {}}', encoding="utf-8")
    with refused(DataError, "too-large"):
        load_tokenizer(tmp_path / "tok.json")


def test_every_flipped_byte_is_a_tokenizer_or_a_sentence(tmp_path: Path) -> None:
    """Damage anywhere gives a DataError or a file that still makes sense; never a traceback of the library."""
    tokenizer = TOKENIZERS.parse({"kind": "bpe", "vocab": 262}).train(lambda: [TEXT])
    file = tmp_path / "tok.json"
    tokenizer.save(file)
    whole = json.dumps(json.loads(file.read_text(encoding="utf-8"))).encode()
    damaged = 0
    for place in range(0, len(whole), 23):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
        try:
            load_tokenizer(file).encode(TEXT)
        except DataError:
            damaged += 1
    assert damaged > 20


def test_added_tokens_that_contradict_the_vocabulary(tmp_path: Path) -> None:
    tokenizer = TOKENIZERS.parse({"kind": "bpe", "vocab": 262}).train(lambda: [TEXT])
    document: dict[str, Any] = tokenizer.settings()["document"]
    document["added_tokens"][0]["id"] = 5
    (tmp_path / "tok.json").write_text(json.dumps(document), encoding="utf-8")
    loaded = load_tokenizer(tmp_path / "tok.json")
    assert loaded.kind == "huggingface"  # the library has its own rule for this, so its ids count


def never() -> list[str]:
    raise AssertionError("a tokenizer from a file reads no texts")


def test_the_file_alone_says_enough(tmp_path: Path) -> None:
    made = TOKENIZERS.parse({"kind": "bpe", "vocab": 270}).train(lambda: ["the lower the slower\n"] * 3)
    made.save(tmp_path / "tok.json")
    config = TOKENIZERS.parse({"file": str(tmp_path / "tok.json")})
    assert config.to_dict() == {"kind": "file", "file": str(tmp_path / "tok.json")}
    loaded = config.train(never)
    assert (loaded.kind, loaded.encode("the slower")) == ("bpe", made.encode("the slower"))


def test_a_file_that_is_missing_or_not_named_is_refused(tmp_path: Path) -> None:
    with refused(DataError, "unreadable", "none.json"):
        TOKENIZERS.parse({"file": str(tmp_path / "none.json")}).train(never)
    with refused(ConfigError, "missing-key", "tokenizer.file"):
        TOKENIZERS.parse({"kind": "file"})
    with refused(ConfigError, "bad-value", "tokenizer.file=''"):
        TOKENIZERS.parse({"file": ""})


MERGES = "#version: 0.2\nh e\nl l\nhe ll\nhell o\n\u0120 w\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "vocab.bpe"
    place.write_text(MERGES, encoding="utf-8")
    return place


def test_ids_are_those_of_gpt2(file: Path) -> None:
    tokenizer = load_tokenizer(file)
    assert isinstance(tokenizer, BPETokenizer)
    assert tokenizer.size == 256 + 5 + 1
    # GPT-2 numbers "!" 0, "\"" 1, ..., the space's sign 220; merges follow from 256 on, the mark of the end is last
    assert tokenizer.encode('!" hello w') == [0, 1, 220, 259, 260]
    assert tokenizer.stop_id == 261
    assert tokenizer.decode(tokenizer.encode("h\u00e9llo \u2603")) == "h\u00e9llo \u2603"


def test_a_vocabulary_beside_it_gives_the_ids(file: Path) -> None:
    tokens = [*load_tokenizer(file).pairs.tokens][::-1]
    (file.parent / "encoder.json").write_text(json.dumps({token: at for at, token in enumerate(tokens)}), encoding="utf-8")
    again = load_tokenizer(file.parent)  # a folder without a tokenizer.json
    assert again.encode("hello") == [261 - 259]
    (file.parent / "encoder.json").write_text(json.dumps({token: at for at, token in enumerate(tokens[1:])}), encoding="utf-8")
    with refused(DataError, "other-vocabulary", "262"):
        load_tokenizer(file)


@pytest.mark.parametrize("line", ["he y z", "hel l", "x", "l l"])
def test_a_line_that_is_no_merge_is_named(line: str, file: Path) -> None:
    file.write_text(MERGES + line + "\n", encoding="utf-8")
    with refused(DataError, "bad-merge", "vocab.bpe", "line 7"):
        load_tokenizer(file)


def test_a_recipe_trains_with_it(file: Path, tmp_path: Path) -> None:
    import glassformer as gf

    (tmp_path / "text.txt").write_text("hello world\n" * 40, encoding="utf-8")
    recipe = {
        "data": {"path": str(tmp_path / "text.txt")},
        "tokenizer": {"kind": "file", "file": str(file)},
        "model": {"width": 8, "layers": 1, "heads": 2, "context": 8},
        "training": {"steps": 2, "batch_size": 2},
    }
    run = gf.train(recipe, out=tmp_path / "run")
    assert run.tokenizer.encode("hello") == [259]
