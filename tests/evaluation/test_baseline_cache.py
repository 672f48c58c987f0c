"""Baselines that are fitted once: the same bytes as without a cache, never those of other data, made again when damaged."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from glassformer.evaluation import baseline_cache as cached_baselines
from glassformer.evaluation.baseline_cache import AREA, ARRAYS, packed_baselines
from glassformer.evaluation.language_baselines import Uniform
from glassformer.foundation.errors import DataError
from glassformer.runs.baselines_file import packed, unpacked

FITTED = {"uniform": Uniform(7)}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / AREA


class Fit:
    """Fits a uniform distribution and counts how often."""

    def __init__(self, size: int = 7) -> None:
        self.size, self.calls = size, 0

    def __call__(self) -> dict[str, Uniform]:
        self.calls += 1
        return {"uniform": Uniform(self.size)}


def entry(cache: Path) -> Path:
    (folder,) = (one for one in cache.iterdir() if one.is_dir())
    return folder


def test_fitted_once_and_the_bytes_are_those_of_a_fit(cache: Path) -> None:
    fit = Fit()
    assert [packed_baselines("data", fit) for _ in range(3)] == [packed(FITTED)] * 3
    assert fit.calls == 1


def test_without_a_checksum_of_the_data_they_are_fitted_every_time(cache: Path) -> None:
    fit = Fit()
    assert [packed_baselines(None, fit) for _ in range(2)] == [packed(FITTED)] * 2
    assert fit.calls == 2
    assert not cache.exists()


def test_other_data_code_plugins_or_numpy_take_no_old_ones(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed_baselines("data", Fit(7))
    assert unpacked(packed_baselines("other data", Fit(11)))["uniform"]["vocabulary"] == 11
    for name, value in (("code_sha256", lambda: "0"), ("plugin_checksums", lambda _: ["0"]), ("cpu_name", lambda: "other")):
        with monkeypatch.context() as patch:
            patch.setattr(cached_baselines, name, value)
            fit = Fit(13)
            assert unpacked(packed_baselines("data", fit))["uniform"]["vocabulary"] == 13
            assert fit.calls == 1
    monkeypatch.setattr(np, "__version__", "0.1")
    assert unpacked(packed_baselines("data", Fit(17)))["uniform"]["vocabulary"] == 17


def _cut(folder: Path) -> None:
    (folder / ARRAYS).write_bytes((folder / ARRAYS).read_bytes()[:-9])


def _wrong_byte(folder: Path) -> None:
    content = bytearray((folder / ARRAYS).read_bytes())
    content[len(content) // 2] ^= 0xFF
    (folder / ARRAYS).write_bytes(content)


@pytest.mark.parametrize(
    "damage", [_cut, _wrong_byte, lambda folder: (folder / ARRAYS).unlink()], ids=["cut", "byte", "no arrays"]
)
def test_a_damaged_entry_is_made_again(damage: Callable[[Path], None], cache: Path) -> None:
    packed_baselines("data", Fit())
    damage(entry(cache))
    fit = Fit()
    assert packed_baselines("data", fit) == packed(FITTED)
    assert packed_baselines("data", fit) == packed(FITTED)
    assert fit.calls == 1


def test_a_cache_that_cannot_be_used_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "file"))
    fit = Fit()
    assert packed_baselines("data", fit) == packed(FITTED)
    assert fit.calls == 1


def test_a_mistake_in_the_data_is_raised(cache: Path) -> None:
    def fit() -> dict[str, Uniform]:
        raise DataError("The training tokens hold the id 9.")

    with pytest.raises(DataError, match="id 9"):
        packed_baselines("data", fit)


def _slowly(file: Path) -> dict[str, Uniform]:
    with file.open("a") as stream:
        stream.write("x")
    time.sleep(0.3)
    return {"uniform": Uniform(7)}


def _work(file: Path, answers: multiprocessing.Queue[bytes]) -> None:
    answers.put(packed_baselines("data", lambda: _slowly(file)))


def test_of_several_processes_one_fits_and_the_others_wait(cache: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    workers = [context.Process(target=_work, args=(tmp_path / "calls", answers)) for _ in range(3)]
    for worker in workers:
        worker.start()
    assert [answers.get(timeout=300) for _ in workers] == [packed(FITTED)] * 3
    for worker in workers:
        worker.join()
    assert (tmp_path / "calls").read_text() == "x"
