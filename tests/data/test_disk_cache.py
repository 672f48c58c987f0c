"""Kept folders: whole or absent, made once, with several processes, after a kill, without leave to write."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from tests.refusals import refused

from glassformer.data.disk_cache import cache_folder, cached_folder
from glassformer.foundation.errors import DataError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_folder_is_the_users_choice_or_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", "~/elsewhere")
    assert cache_folder() == Path.home() / "elsewhere"
    monkeypatch.delenv("GLASSFORMER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder() == Path("/xdg/glassformer")
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library/Caches/glassformer"


def test_is_made_once(cache: Path) -> None:
    made = []

    def make(draft: Path) -> None:
        made.append(draft)
        (draft / "file").write_text("content")

    folders = [cached_folder("area", "key", make) for _ in range(3)]
    assert folders == [cache / "area" / "key"] * 3
    assert (folders[0] / "file").read_text() == "content"
    assert len(made) == 1


def test_a_failure_leaves_nothing(cache: Path) -> None:
    def fail(draft: Path) -> None:
        (draft / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_folder("area", "key", fail)
    assert [entry.name for entry in (cache / "area").iterdir()] == [".key.lock"]


def test_a_damaged_folder_is_made_again(cache: Path) -> None:
    def make(draft: Path) -> None:
        (draft / "file").write_text("whole")

    def whole(folder: Path) -> bool:
        return (folder / "file").is_file() and (folder / "file").read_text() == "whole"

    folder = cached_folder("area", "key", make, whole=whole)
    (folder / "file").write_text("dam")
    assert cached_folder("area", "key", make, whole=whole) == folder
    assert (folder / "file").read_text() == "whole"


def test_drafts_of_the_killed_are_removed(cache: Path) -> None:
    leftover = cache / "area" / ".key.abc"
    leftover.mkdir(parents=True)
    (leftover / "half").write_text("half")
    cached_folder("area", "key", lambda draft: None)
    assert not leftover.exists()


def _work(cache: str, log: str) -> None:
    os.environ["GLASSFORMER_CACHE"] = cache

    def make(draft: Path) -> None:
        with open(log, "a") as stream:
            stream.write(f"{os.getpid()}\n")
        for number in range(200):
            (draft / f"{number}").write_text("x" * 100)

    folder = cached_folder("area", "key", make)
    assert len(list(folder.iterdir())) == 200


def test_processes_at_once_make_it_once(cache: Path, tmp_path: Path) -> None:
    start = multiprocessing.get_context("spawn")
    workers = [start.Process(target=_work, args=(str(cache), str(tmp_path / "log"))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_a_cache_that_cannot_be_written_to_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "file"))
    with refused(DataError, "cache-not-writable", "GLASSFORMER_CACHE"):
        cached_folder("area", "key", lambda draft: None)
