"""A recipe's tokenizer from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.foundation.errors import ConfigError, DataError


def never() -> list[str]:
    raise AssertionError("a tokenizer from a file reads no texts")


def test_the_file_alone_says_enough(tmp_path: Path) -> None:
    made = TOKENIZERS.parse({"kind": "bpe", "vocab": 270}).train(lambda: ["the lower the slower\n"] * 3)
    made.save(tmp_path / "tok.json")
    config = TOKENIZERS.parse({"file": str(tmp_path / "tok.json")})
    assert config.to_dict() == {"kind": "file", "file": str(tmp_path / "tok.json")}
    loaded = config.train(never)
    assert (loaded.kind, loaded.encode("the slower")) == ("bpe", made.encode("the slower"))


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json: cannot be read"):
        TOKENIZERS.parse({"file": str(tmp_path / "none.json")}).train(never)
    with pytest.raises(ConfigError, match=r"tokenizer.file is missing"):
        TOKENIZERS.parse({"kind": "file"})
    with pytest.raises(ConfigError, match=r"tokenizer.file=''"):
        TOKENIZERS.parse({"file": ""})
