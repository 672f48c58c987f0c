"""Pairs of texts from parallel files and tables: splits, notes, refusals with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.refusals import refused

from glassformer.data.config import DataConfig
from glassformer.data.pairs.text_pairs import Pairs, load_pairs, pairs_of_file, sources_of_file, sources_of_texts
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.data.tokenizers.two import TwoTokenizers
from glassformer.foundation.errors import ConfigError, DataError, UnknownName, UsageError

CHARS = TOKENIZERS.parse("char")


def written(folder: Path, name: str, *lines: str) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / name)


def parallel(folder: Path, name: str, pairs: list[tuple[str, str]]) -> str:
    files = [written(folder, f"{name}.{ending}", *side) for ending, side in zip(("de", "en"), zip(*pairs))]
    return ",".join(files)


ANIMALS = [("Hund", "dog"), ("Katze", "cat"), ("Maus", "mouse"), ("Ente", "duck"), ("Hase", "hare"), ("Igel", "hedgehog")]


def test_parallel_files_and_their_splits(tmp_path: Path) -> None:
    config = DataConfig(
        path=parallel(tmp_path, "all", ANIMALS), test=parallel(tmp_path, "test", [("Hund", "dog"), ("Kuh", "cow")])
    )
    part = load_pairs(config, CHARS)
    train, validation = part.split("train"), part.split("validation")
    assert len(train) == 5
    assert len(validation) == 1
    assert set(zip(train.sources + validation.sources, (train.targets or ()) + (validation.targets or ()))) == set(ANIMALS)
    test = part.split("test")
    assert test.seen is not None
    assert test.seen.tolist() == ["Hund" in train.sources, False]
    assert part.names == ["train", "validation", "test"]
    assert part.record["reading"]["parallel"]


@pytest.mark.parametrize(
    ("name", "lines", "columns"),
    [
        ("p.tsv", ["source\ttarget", *("\t".join(pair) for pair in ANIMALS)], {}),
        ("p.tsv", ["\t".join(pair) for pair in ANIMALS], {"source_column": 1, "target_column": 2}),
        ("p.csv", ["en,de", *(f"{en},{de}" for de, en in ANIMALS)], {"source_column": "de", "target_column": "en"}),
        ("p.jsonl", [f'{{"source": "{de}", "target": "{en}"}}' for de, en in ANIMALS], {}),
    ],
)
def test_tables(tmp_path: Path, name: str, lines: list[str], columns: dict[str, object]) -> None:
    part = load_pairs(DataConfig.parse({"path": written(tmp_path, name, *lines), **columns}), CHARS)
    found = [
        pair for split in ("train", "validation") for pair in zip(part.split(split).sources, part.split(split).targets or ())
    ]
    assert sorted(found) == sorted(ANIMALS)


def test_the_direction_is_chosen_by_the_endings(tmp_path: Path) -> None:
    path = parallel(tmp_path, "all", ANIMALS)
    for columns in ({"source_column": "en"}, {"target_column": "de"}, {"source_column": "en", "target_column": "de"}):
        part = load_pairs(DataConfig.parse({"path": path, **columns}), CHARS)
        assert "dog" in part.split("train").sources + part.split("validation").sources
    with pytest.raises(UnknownName):
        load_pairs(DataConfig(path=path, source_column="fr"), CHARS)
    with refused(ConfigError, "same-column"):
        load_pairs(DataConfig(path=path, source_column="de", target_column="de"), CHARS)


def test_files_of_unequal_length_are_refused_with_the_line(tmp_path: Path) -> None:
    path = ",".join([written(tmp_path, "a.de", "eins", "zwei"), written(tmp_path, "a.en", "one", "two", "three")])
    with refused(DataError, "unequal-files", "3"):
        load_pairs(DataConfig(path=path), CHARS)


def test_a_text_file_alone_has_no_pairs(tmp_path: Path) -> None:
    with refused(DataError, "no-columns"):
        load_pairs(DataConfig(path=written(tmp_path, "a.txt", "eins")), CHARS)
    with refused(ConfigError, "no-pairs"):
        load_pairs(DataConfig(set="docstrings"), CHARS)


def test_empty_and_repeated_pairs_are_reported(tmp_path: Path) -> None:
    pairs = [*ANIMALS, ("", "nothing"), ("Nichts", ""), ANIMALS[0], ANIMALS[0]]
    part = load_pairs(DataConfig(path=parallel(tmp_path, "all", pairs), validation=parallel(tmp_path, "v", ANIMALS[:2])), CHARS)
    notes = " ".join(part.notes)
    assert len(part.split("train")) == len(ANIMALS) + 2
    assert "2 of the train pairs have an empty" in notes
    assert "2 of the 8 train pairs repeat" in notes
    assert "2 of the 2 validation sources" in notes


def test_two_tokenizers_learn_one_side_each(tmp_path: Path) -> None:
    config = DataConfig(path=parallel(tmp_path, "all", ANIMALS))
    two = load_pairs(config, TOKENIZERS.parse({"kind": "two", "source": "char", "target": "char"}), marks=("<end>",)).tokenizer
    assert isinstance(two, TwoTokenizers)
    shared = load_pairs(config, CHARS, marks=("<end>",)).tokenizer
    assert two.size < shared.size
    assert two.target.marks == ("<end>",)


def test_other_pairs_than_the_run_began_with_are_refused(tmp_path: Path) -> None:
    config = DataConfig(path=parallel(tmp_path, "all", ANIMALS))
    record = load_pairs(config, CHARS).record
    load_pairs(config, CHARS, expect=record)
    parallel(tmp_path, "all", [*ANIMALS, ("Wal", "whale")])
    with refused(DataError, "text-changed"):
        load_pairs(config, CHARS, expect=record)


def test_texts_to_translate(tmp_path: Path) -> None:
    tokenizer = CHARS.train(lambda: ["abc"])
    reading = DataConfig(path=parallel(tmp_path, "all", ANIMALS))
    assert sources_of_texts(tokenizer, " a b ").sources == ("a b",)
    assert sources_of_file(tokenizer, written(tmp_path, "s.txt", "eins", "zwei"), reading).sources == ("eins", "zwei")
    known = sources_of_file(tokenizer, parallel(tmp_path, "t", ANIMALS), reading)
    assert known.answers == tuple(en for _, en in ANIMALS)
    assert len(pairs_of_file(tokenizer, parallel(tmp_path, "t", ANIMALS), reading)) == len(ANIMALS)
    with refused(DataError, "empty-line"):
        sources_of_file(tokenizer, written(tmp_path, "s.txt", "eins", "", "zwei"), reading)
    with refused(DataError, "empty-text"):
        sources_of_texts(tokenizer, ["a", " "])
    with refused(UsageError, "no-targets"):
        Pairs("t", ("a",), None, ("t:1",)).require_targets()
