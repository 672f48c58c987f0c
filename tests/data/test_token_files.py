"""Documents to token arrays: marks, starts and counts on paper; batches of any size give the same; damage is seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest

from glassformer.data import token_files
from glassformer.data.reading.corpus import Document
from glassformer.data.token_files import is_whole, open_split, split_of_documents, split_writers, token_type
from glassformer.data.tokenizers.base import Tokenizer

SOURCES = ("a.txt", "b.txt")
DOCUMENTS = [
    Document("ab\n", "a.txt", 1),
    Document("c d", "a.txt", 2),
    Document(" e\n", "a.txt", 2, continues=True),
    Document("", "b.txt", 1),
    Document("ab", "b.txt", 2),
    Document("xé", "b.txt", 3),
]


@final
class Letters(Tokenizer):
    """a, b, ... are 1, 2, ...; space is 27, newline 28, others 0; marks on request."""

    kind = "test-letters"
    unknown_id = 0

    def __init__(self, start: int | None = None, stop: int | None = None) -> None:
        self.start_id, self.stop_id = start, stop

    @property
    def size(self) -> int:
        return 40

    def encode(self, text: str) -> list[int]:
        places = {character: number + 1 for number, character in enumerate("abcdefghijklmnopqrstuvwxyz \n")}
        return [places.get(character, 0) for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError

    def token_text(self, token_id: int) -> str:
        raise NotImplementedError

    def byte_lengths(self) -> np.ndarray:
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Letters:
        return cls()


def test_without_marks() -> None:
    split = split_of_documents("x", Letters(), DOCUMENTS)
    assert split.tokens.tolist() == [1, 2, 28, 3, 27, 4, 27, 5, 28, 1, 2, 24, 0]
    assert split.tokens.dtype == np.uint16
    assert split.starts.tolist() == [0, 3, 9, 9, 11]
    assert [split.document(number).tolist() for number in (0, 2, 4)] == [[1, 2, 28], [], [24, 0]]
    assert (split.num_documents, split.num_tokens, split.num_characters, split.num_bytes, split.num_words) == (5, 13, 13, 14, 6)
    assert (split.unknown_tokens, split.unknown_share) == (1, 1 / 13)


def test_with_both_marks() -> None:
    split = split_of_documents("x", Letters(30, 31), DOCUMENTS)
    assert split.tokens.tolist() == [
        *(30, 1, 2, 28, 31),
        *(30, 3, 27, 4, 27, 5, 28, 31),
        *(30, 31),
        *(30, 1, 2, 31),
        *(30, 24, 0, 31),
    ]
    assert split.starts.tolist() == [0, 5, 13, 15, 19]


@pytest.mark.parametrize(("start", "stop"), [(None, 31), (30, None)])
def test_with_one_mark(start: int | None, stop: int | None) -> None:
    split = split_of_documents("x", Letters(start, stop), DOCUMENTS)
    documents = [split.document(number).tolist() for number in range(5)]
    inside = [[1, 2, 28], [3, 27, 4, 27, 5, 28], [], [1, 2], [24, 0]]
    before, after = [start] if start else [], [stop] if stop else []
    assert documents == [[*before, *ids, *after] for ids in inside]


@pytest.mark.parametrize("marks", [(None, None), (30, 31), (None, 31)])
@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_batches_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, marks: tuple[Any, Any], size: int) -> None:
    whole = split_of_documents("x", Letters(*marks), DOCUMENTS)
    monkeypatch.setattr(token_files, "_BATCH_CHARACTERS", size)
    pieced = split_of_documents("x", Letters(*marks), DOCUMENTS)
    np.testing.assert_array_equal(pieced.tokens, whole.tokens)
    np.testing.assert_array_equal(pieced.documents, whole.documents)


def test_equal_texts_are_found_whatever_surrounds_them() -> None:
    split = split_of_documents("x", Letters(), DOCUMENTS)
    assert split.repeats.examples == ((3, 0),)  # "ab" of b.txt line 2 and "ab\n" of a.txt line 1
    assert (split.where(3), split.where(0)) == ("b.txt, line 2", "a.txt, line 1")


def test_on_disk_it_is_the_same(tmp_path: Path) -> None:
    folders = {"one": tmp_path / "one", "two": tmp_path / "two"}
    for folder in folders.values():
        folder.mkdir()
    with split_writers(folders, Letters(30, 31), SOURCES) as writers:
        for document in DOCUMENTS:
            writers["one"].add(document)
            writers["two"].add(document)
    expected = split_of_documents("one", Letters(30, 31), DOCUMENTS)
    opened = open_split("one", folders["one"], SOURCES)
    assert isinstance(opened.tokens, np.memmap)
    np.testing.assert_array_equal(opened.tokens, expected.tokens)
    np.testing.assert_array_equal(opened.documents, expected.documents)
    assert opened.to_dict() == expected.to_dict()
    assert opened.repeats == expected.repeats
    assert is_whole(folders["two"])
    with pytest.raises(ValueError, match="read-only"):
        opened.tokens[0] = 3


@pytest.mark.parametrize("name", ["tokens.bin", "documents.bin", "facts.json"])
def test_a_cut_off_file_is_noticed(tmp_path: Path, name: str) -> None:
    with split_writers({"one": tmp_path}, Letters(), SOURCES) as writers:
        for document in DOCUMENTS:
            writers["one"].add(document)
    assert is_whole(tmp_path)
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:-3])
    assert not is_whole(tmp_path)
    file.unlink()
    assert not is_whole(tmp_path)


def test_a_failure_leaves_no_whole_folder(tmp_path: Path) -> None:
    def fail() -> None:
        with split_writers({"one": tmp_path}, Letters(), SOURCES) as writers:
            writers["one"].add(DOCUMENTS[0])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not is_whole(tmp_path)


def test_the_smallest_type_that_holds_the_ids() -> None:
    assert token_type(65536) is np.uint16
    assert token_type(65537) is np.uint32
