"""Two tokenizers in one: saved, loaded, refused for a text with one side."""

from __future__ import annotations

from pathlib import Path

from tests.refusals import refused

from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.data.tokenizers.two import TwoTokenizers, target_side
from glassformer.foundation.errors import ConfigError


def test_it_reads_as_the_source_and_writes_as_the_target(tmp_path: Path) -> None:
    chars = TOKENIZERS.parse("char")
    two = TwoTokenizers(chars.train(lambda: ["abc"]), chars.train(lambda: ["xyzw"])).with_marks(["<end>"])
    two.save(tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    assert isinstance(loaded, TwoTokenizers)
    for one in (two, loaded):
        assert (one.size, one.target.size) == (4 + (one.source.unknown_id is not None), 5 + (one.target.unknown_id is not None))
        assert one.decode(one.encode("cab")) == "cab"
        assert target_side(one).decode(target_side(one).encode("wx")) == "wx"
        assert one.mark_id("<end>") == one.size - 1
        assert one.target.mark_id("<end>") == one.target.size - 1
    assert target_side(two.source) is two.source


def test_one_text_has_no_second_side() -> None:
    config = TOKENIZERS.parse({"kind": "two", "source": "char", "target": {"kind": "bpe", "vocab": 300}})
    with refused(ConfigError, "two-tokenizers-one-text"):
        config.train(lambda: ["abc"])
