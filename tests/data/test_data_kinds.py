"""Parts of data by name: prepared in order with one tokenizer, their records, and what is not there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.refusals import refused

import glassformer as gf
from glassformer.data import data_kinds as module
from glassformer.data.config import DataConfig
from glassformer.data.data_kinds import DataKind, PreparedData, data_kind, data_kinds, prepare_parts, register_data_kind
from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.plugins import load_plugins


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

    def kind(name: str) -> DataKind:
        def load(data: Any, tokenizer: Any, **more: Any) -> Part:
            calls.append({"name": name, "tokenizer": tokenizer, **more})
            return Part(name, f"learned from {name}" if tokenizer == "config" else tokenizer)

        return DataKind(load=load, of_file=load, of_texts=load)

    monkeypatch.setattr(module, "_kinds", {**data_kinds(), "first": kind("first"), "second": kind("second")})
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
    with refused(ConfigError, "part-not-prepared", "questions", "text"):
        PreparedData({"text": Part("text", "t")}, "text").part("questions")
    with refused(UnknownName, "unknown-name", "'questions'"):
        data_kind("question")


def test_every_part_an_objective_reads_has_its_kind() -> None:
    from glassformer.objectives.base import OBJECTIVES

    kinds = [OBJECTIVES.get(name) for name in OBJECTIVES.names() if name != "mixture"]  # which reads what its parts read
    wanted = {name for kind in kinds for name in (*kind.reads, kind.judged_on, kind.ask_reads)}
    assert wanted <= set(data_kinds())


PLUGIN = '''
"""Text read from its end to its beginning."""
from dataclasses import replace
from glassformer.data.batches import WindowBatches
from glassformer.data.data_kinds import DataKind, register_data_kind
from glassformer.data.prepare import prepare, tokens_of_file, tokens_of_text
from glassformer.objectives.base import OBJECTIVES
from glassformer.objectives.next_token import NextTokenConfig


class Backwards:
    def __init__(self, text):
        self.text, self.tokenizer, self.names, self.notes = text, text.tokenizer, text.names, ["The text is read backwards."]
        self.record = {"backwards": text.record["sha256"]}

    def split(self, name):
        split = self.text.split(name)
        return replace(split, tokens=split.tokens[::-1].copy())


def load(data, tokenizer, **more):
    return Backwards(prepare(data, tokenizer))


register_data_kind("backwards", DataKind(load=load, of_file=tokens_of_file, of_texts=tokens_of_text))


@OBJECTIVES.variant("previous-token")
class PreviousTokenConfig(NextTokenConfig):
    """Every token predicts the one before it."""

    reads = ("text", "backwards")
    judged_on = "backwards"

    def batches(self, data, *, context, batch_size, seed):
        return WindowBatches(data.part("backwards").split("train").tokens, context=context, batch_size=batch_size, seed=seed)
'''


def test_a_plugin_adds_a_kind_of_data_and_an_objective_that_trains_on_it(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "_kinds", data_kinds())
    plugin = tmp_path / "backwards.py"
    plugin.write_text(PLUGIN)
    load_plugins([plugin])
    run = gf.train(tiny, set={"objective": "previous-token"}, out=tmp_path / "run")
    assert "The text is read backwards." in run.data.notes
    assert "backwards" in run.data.record["parts"]
    tokens = run.data.part("text").split("validation").tokens
    assert run.data.split("validation").tokens.tolist() == tokens[::-1].tolist()
    assert run.evaluate().metrics["loss"].value > 0


def test_a_name_that_is_taken_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(module, "_kinds", data_kinds())
    register_data_kind("text", data_kind("text"))  # the same one again, as when a plugin is edited
    with refused(ConfigError, "name-taken", "'text'"):
        register_data_kind("text", data_kind("labels"))
