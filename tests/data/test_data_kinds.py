"""Parts of data by name: prepared in order with one tokenizer, their records, and what is not there."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.data import data_kinds as parts
from glassformer.data.config import DataConfig
from glassformer.data.data_kinds import KINDS, PartKind, PreparedData, part_kind, prepare_parts
from glassformer.foundation.errors import ConfigError, UnknownName


class Part:
    def __init__(self, name: str, tokenizer: Any, names: tuple[str, ...] = ("train", "validation")) -> None:
        self.name, self.tokenizer, self.names = name, tokenizer, names
        self.notes, self.record = [f"a note on {name}"], {"sha256": f"of {name}", "size": len(name)}

    def split(self, name: str) -> str:
        return f"{self.name}/{name}"


@pytest.fixture
def loads(monkeypatch) -> list[dict[str, Any]]:
    """Two kinds that write down how they were loaded; each turns a tokenizer config into a tokenizer of its own."""
    calls: list[dict[str, Any]] = []

    def kind(name: str) -> PartKind:
        def load(data: Any, tokenizer: Any, **more: Any) -> Part:
            calls.append({"name": name, "tokenizer": tokenizer, **more})
            return Part(name, f"learned from {name}" if tokenizer == "config" else tokenizer)

        return PartKind(load=load, of_file=load, of_texts=load)

    monkeypatch.setattr(parts, "KINDS", {"first": kind("first"), "second": kind("second")})
    return calls


def prepared(**more: Any) -> PreparedData:
    return prepare_parts(DataConfig(path="x"), "config", reads=["first", "second"], judged_on="second", **more)  # type: ignore[arg-type]


def test_the_first_tokenizer_serves_all(loads) -> None:
    data = prepared(marks=("<m>",))
    assert [(call["name"], call["tokenizer"]) for call in loads] == [("first", "config"), ("second", "learned from first")]
    assert {call["marks"] for call in loads} == {("<m>",)}
    assert data.tokenizer == "learned from first"


def test_the_judged_part_is_the_one_that_is_split(loads) -> None:
    data = prepared()
    assert data.names == ["train", "validation"]
    assert data.split("train") == "second/train"
    assert data.part("first").split("train") == "first/train"
    assert data.notes == ["a note on first", "a note on second"]


def test_a_record_is_what_the_next_preparation_expects(loads) -> None:
    record = prepared().record
    assert record == {"sha256": "of first", "size": 5, "parts": {"second": {"sha256": "of second", "size": 6}}}
    loads.clear()
    prepared(expect=record)
    assert loads[0]["expect"] == record
    assert loads[1]["expect"] == {"sha256": "of second", "size": 6}
    loads.clear()
    prepared(expect={"sha256": "of an old run with one part"})
    assert loads[1]["expect"] is None


def test_one_part_alone_has_a_flat_record() -> None:
    assert PreparedData({"text": Part("text", "t")}, "text").record == {"sha256": "of text", "size": 4}


def test_what_is_not_there_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"These data have no questions; they have: text\."):
        PreparedData({"text": Part("text", "t")}, "text").part("questions")
    with pytest.raises(UnknownName, match="Did you mean 'questions'"):
        part_kind("question")


def test_every_part_an_objective_reads_has_its_kind() -> None:
    from glassformer.objectives.base import OBJECTIVES

    kinds = [OBJECTIVES.get(name) for name in OBJECTIVES.names() if name != "mixture"]  # which reads what its parts read
    wanted = {name for kind in kinds for name in (*kind.reads, kind.judged_on, kind.ask_reads)}
    assert wanted <= set(KINDS)
