"""The text of a world alone: held-out lines are about people of the training lines, and no line is in both."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.config import DataConfig
from glassformer.data.prepare import PreparedText, prepare
from glassformer.data.tokenizers.byte import ByteTokenizerConfig
from glassformer.knowledge.worlds import WorldConfig


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


def lines(data: PreparedText, split: str) -> list[str]:
    read = data.split(split)
    return [bytes(read.document(number).tolist()).decode() for number in range(read.num_documents)]


def test_held_out_lines_are_about_people_of_the_training_lines() -> None:
    config = DataConfig.parse({"set": {"kind": "people", "people": 60}, "split": {"validation": 0.1}})
    data = prepare(config, ByteTokenizerConfig())
    train, held_out = lines(data, "train"), lines(data, "validation")
    assert len(train) + len(held_out) == 60 * 5
    assert len(held_out) == pytest.approx(30, abs=15)
    assert not {*train} & {*held_out}
    names = [person["name"] for person in WorldConfig(people=60, nowhere=0.0).files().people()]
    told = " ".join(train)
    for line in held_out:
        assert [name in told for name in names if name in line] == [True]
