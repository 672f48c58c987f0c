"""GPT-2's own file of merges: read with its ids, with those of a vocabulary beside it, and refused where it is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.data.tokenizers.bpe import BPETokenizer
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.foundation.errors import DataError

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
    with pytest.raises(DataError, match="does not hold the 262 tokens of the merges beside it"):
        load_tokenizer(file)


@pytest.mark.parametrize("line", ["he y z", "hel l", "x", "l l"])
def test_a_line_that_is_no_merge_is_named(line: str, file: Path) -> None:
    file.write_text(MERGES + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"vocab.bpe.*line 7.*is no merge of two tokens"):
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
