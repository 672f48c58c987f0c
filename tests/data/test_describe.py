"""Descriptions: sizes and quantiles on paper, documents rather than pieces, the test split left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.data.config import DataConfig
from glassformer.data.describe import first_documents, list_sets, measure
from glassformer.data.reading import readers
from glassformer.data.tokenizers.base import TOKENIZERS


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def config(tmp_path: Path) -> DataConfig:
    (tmp_path / "a.txt").write_text("a\nbb\nccc\ndddd\nbb\n")
    (tmp_path / "t.txt").write_text("a\n")
    return DataConfig.parse(
        {"path": str(tmp_path / "a.txt"), "document": "line", "split": {"validation": 0.0}, "test": str(tmp_path / "t.txt")}
    )


def test_lists_every_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    here = {row["name"]: row["here"] for row in list_sets()}
    absent = dict.fromkeys(
        ("wikitext-2", "tinyshakespeare", "speeches", "sst2", "boolq", "multi30k", "names", "boolq-passages"), False
    )
    assert here == {"docstrings": True, "standard-library": True, **absent}


def test_facts_on_paper(config: DataConfig) -> None:
    facts, lengths = measure(config, TOKENIZERS.parse("byte"))
    json.dumps(facts, allow_nan=False)
    assert lengths["train"].tolist() == [2, 3, 4, 5, 3]
    train = facts["splits"]["train"]
    assert train["tokens_per_document"] == {
        "mean": 3.4,
        "smallest": 2,
        "5 %": 2,
        "25 %": 3,
        "median": 3,
        "75 %": 4,
        "95 %": 5,
        "largest": 5,
    }
    assert train["repeated_documents"] == 1
    assert train["repeats"][0]["text"] == "bb"
    assert train["repeats"][0]["at"].endswith("a.txt, line 5")
    assert train["repeats"][0]["as"].endswith("a.txt, line 2")


def test_the_test_split_is_left_alone_unless_asked_for(config: DataConfig) -> None:
    facts, lengths = measure(config, TOKENIZERS.parse("byte"))
    assert (facts["unopened"], list(lengths)) == (["test"], ["train"])
    facts, lengths = measure(config, TOKENIZERS.parse("byte"), test=True)
    assert (facts["unopened"], list(lengths)) == ([], ["train", "test"])


def test_first_documents_are_whole_or_cut(config: DataConfig, tmp_path: Path) -> None:
    found = first_documents(config, count=4, characters=3)
    assert [(one["line"], one["text"], one["cut"]) for one in found["documents"]] == [
        (1, "a\n", False),
        (2, "bb\n", False),
        (3, "ccc", True),
        (4, "ddd", True),
    ]
    assert found["own_files"] == {"test:t": [str(tmp_path / "t.txt")]}


def test_documents_of_a_labelled_set_have_the_names_of_their_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    (tmp_path / "sst2").mkdir()
    for name in ("train", "dev", "test"):
        (tmp_path / "sst2" / f"{name}.txt").write_text("1 a fine film\n0 a dull one\n7 no known one\n")
    found = first_documents(DataConfig(set="sst2"), count=3)["documents"]
    assert [(one["text"].strip(), one["label"]) for one in found] == [
        ("a fine film", "positive"),
        ("a dull one", "negative"),
        ("no known one", "7"),
    ]
    (tmp_path / "speeches").mkdir()
    (tmp_path / "speeches" / "train_lm.txt").write_text("a line\n")
    (tmp_path / "speeches" / "train_classify.tsv").write_text("0\tanother line\n1\tmore\n")
    assert "label" not in first_documents(DataConfig(set="speeches"))["documents"][0]  # its text is not its labelled texts


def test_pieces_of_a_file_are_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PIECE_BYTES", 10)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("some words " * 5)
    found = first_documents(DataConfig(path=str(tmp_path), files="*.txt"), characters=40)
    assert [one["text"] for one in found["documents"]] == [("some words " * 5)[:40]] * 2
    found = first_documents(DataConfig(path=str(tmp_path / "a.txt")), characters=25)
    assert [(len(one["text"]), one["cut"]) for one in found["documents"]] == [(25, True)]
