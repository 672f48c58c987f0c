"""A data config to files: folders, standard input, pipes, test files by name, fingerprints."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from glassformer.data.config import DataConfig
from glassformer.data.reading import sources
from glassformer.data.reading.corpus import read
from glassformer.data.reading.sources import (
    at_places,
    find_sources,
    fingerprint_of,
    places_of,
    sha256_of,
    size_of,
    source_at,
    stamp_of,
)
from glassformer.foundation.errors import DataError, UnknownName
from glassformer.foundation.files import sha256_of_file


def config(path: object, **more: Any) -> DataConfig:
    return DataConfig(path=str(path), **more)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "texts"
    (root / "inner").mkdir(parents=True)
    (root / ".hidden").mkdir()
    for name in ("b.txt", "a.TXT", "inner/c.jsonl", "inner/d.md.gz", "x.py", "y.bin", ".z.txt", ".hidden/q.txt"):
        (root / name).write_text('{"text": "x"}\n')
    (root / "loop").symlink_to(root)
    return root


class TestFolders:
    def test_text_is_found_by_its_ending_in_a_fixed_order(self, folder: Path) -> None:
        found = find_sources(config(folder))
        assert [str(file.relative_to(folder)) for file in found.train.files] == [
            "a.TXT",
            "b.txt",
            "inner/c.jsonl",
            "inner/d.md.gz",
        ]
        assert found.notes == (f"4 files of {folder} are read; 2 with other endings are not (data.files chooses by name).",)

    def test_other_files_by_pattern(self, folder: Path) -> None:
        found = find_sources(config(folder, files="*.py"))
        assert [file.name for file in found.train.files] == ["x.py"]
        assert found.notes == ()

    def test_a_folder_without_text_says_what_is_there(self, tmp_path: Path) -> None:
        (tmp_path / "pictures").mkdir()
        for name in ("a.png", "b.png", "c.tar.gz"):
            (tmp_path / "pictures" / name).write_text("x")
        with refused(DataError, "no-text-files", "2", "1", "tar.gz"):
            find_sources(config(tmp_path / "pictures"))
        with refused(DataError, "no-file-matches", "data.files", "'*.rst'"):
            find_sources(config(tmp_path / "pictures", files="*.rst"))

    def test_an_empty_folder(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        with refused(DataError, "no-text-files"):
            find_sources(config(tmp_path / "empty"))


class TestPipes:
    def test_standard_input_is_kept_by_its_sha256(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"piped text\n")))
        source = source_at("-", config("-"))
        assert source.name == "standard input"
        assert [document.text for document in read(source)] == ["piped text\n"]
        again = find_sources(config("-"), input_sha256=fingerprint_of(source))
        assert again.train.files == source.files

    def test_a_lost_copy_says_what_to_do(self) -> None:
        with refused(DataError, "input-copy-gone"):
            find_sources(config("-"), input_sha256="0" * 64)

    def test_nothing_came_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
        with refused(DataError, "nothing-piped"):
            source_at("-", config("-"))

    def test_an_endless_pipe_stops_before_the_disk_is_full(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        class Endless(io.RawIOBase):
            def read(self, size: int = -1) -> bytes:
                return b"y\n" * 500

        class Stdin:
            buffer = Endless()

        monkeypatch.setattr("sys.stdin", Stdin())
        monkeypatch.setattr(sources, "_ROOM_LEFT", 1 << 62)
        with refused(DataError, "disk-almost-full"):
            source_at("-", config("-"))
        assert list((tmp_path / "cache" / "input").iterdir()) == []

    def test_a_named_pipe_is_read_once_and_kept(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_text("through a pipe\n"))
        writer.start()
        source = source_at(str(pipe), config(pipe))
        writer.join()
        assert [document.text for document in read(source)] == ["through a pipe\n"]


class TestParts:
    def test_own_files_take_the_place_of_those_of_a_set(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("train_lm.txt", "test_lm_obama.txt", "test_lm_hbush.txt", "train_classify.tsv"):
            (tmp_path / "speeches").mkdir(exist_ok=True)
            (tmp_path / "speeches" / name).write_text("0\tA sentence.\n")
        monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
        (tmp_path / "mine.txt").write_text("Mine.\n")
        assert list(find_sources(DataConfig(set="speeches")).tests) == ["obama", "hbush"]
        assert list(find_sources(DataConfig(set="speeches", test="hbush")).tests) == ["hbush"]
        own = find_sources(DataConfig(set="speeches", test=str(tmp_path / "mine.txt"), validation=str(tmp_path / "mine.txt")))
        assert list(own.tests) == ["mine"]
        assert own.validation is not None
        with refused(UnknownName, "unknown-name", "'obama'"):
            find_sources(DataConfig(set="speeches", test="obma"))
        assert find_sources(DataConfig(set="speeches", document="block")).tests["obama"].document == "block"

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("x")
        with refused(DataError, "missing-file", "b.txt"):
            find_sources(config(tmp_path / "a.txt", validation=str(tmp_path / "b.txt")))


class TestFingerprints:
    def test_of_one_and_of_several_files(self, tmp_path: Path) -> None:
        for name, text in (("a", "one"), ("b", "two"), ("c", "one")):
            (tmp_path / f"{name}.txt").write_text(text)
        one, two, three = (source_at(str(tmp_path / f"{name}.txt"), config("x")) for name in "abc")
        assert fingerprint_of(one) == sha256_of_file(tmp_path / "a.txt") == fingerprint_of(three) != fingerprint_of(two)
        both = source_at(str(tmp_path), config("x"))
        assert fingerprint_of(both) not in {fingerprint_of(one), fingerprint_of(two)}
        assert size_of(both) == 9

    def test_large_files_are_hashed_again_only_when_they_change(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sources, "_REMEMBER_ABOVE", 1)
        hashed = []
        monkeypatch.setattr(sources, "sha256_of_file", lambda file: hashed.append(file) or sha256_of_file(file))
        file = tmp_path / "a.txt"
        file.write_text("one")
        first = sha256_of(file)
        assert sha256_of(file) == first
        assert len(hashed) == 1
        file.write_text("two two")
        assert sha256_of(file) == sha256_of_file(file) != first
        assert len(hashed) == 2

    def test_a_stamp_changes_when_the_file_does(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("one")
        source = source_at(str(tmp_path / "a.txt"), config("x"))
        before = stamp_of(source)
        (tmp_path / "a.txt").write_text("one and more")
        assert stamp_of(source) != before


class TestPlaces:
    def test_relative_paths_are_noted_with_where_they_lead(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for name in ("a.txt", "v.txt", "w.txt"):
            (tmp_path / name).write_text("x\n")
        given = config("a.txt", validation=str(tmp_path / "v.txt"), test="absent.txt", vocabulary=["w.txt"])
        assert places_of(given) == {"a.txt": str(tmp_path / "a.txt"), "w.txt": str(tmp_path / "w.txt")}
        assert places_of(config("-")) == {}

    def test_a_noted_place_is_used_as_long_as_something_is_there(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("x\n")
        places = {"a.txt": str(tmp_path / "a.txt"), "w.txt": str(tmp_path / "gone.txt")}
        moved = at_places(config("a.txt", test="other.txt", vocabulary=["w.txt"]), places)
        assert (moved.path, moved.test, moved.vocabulary) == (str(tmp_path / "a.txt"), "other.txt", ["w.txt"])
        assert moved.validation is None
