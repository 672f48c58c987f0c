"""Baselines as arrays on disk: what goes in comes out; a file that is missing or damaged is None, never an exception."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glassformer.runs.baselines_file import load_packed, packed, save_baselines
from glassformer.runs.directory import RunDirectory


class Fitted:
    def __init__(self, **arrays: np.ndarray) -> None:
        self._arrays = arrays

    def arrays(self) -> dict[str, np.ndarray]:
        return self._arrays


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path)
    pairs = np.arange(3 * 500, dtype=np.float32).reshape(3, 500)
    fitted = {"unigram": Fitted(counts=np.array([5, 0, 7])), "a/b": Fitted(pairs=pairs, size=np.array(11))}
    save_baselines(directory, packed(fitted))
    return directory


def test_what_goes_in_comes_out(run) -> None:
    found = load_packed(run.baselines_file)
    assert {name: set(arrays) for name, arrays in found.items()} == {"unigram": {"counts"}, "a/b": {"pairs", "size"}}
    assert found["unigram"]["counts"].tolist() == [5, 0, 7]
    assert found["unigram"]["counts"].dtype == np.int64
    assert found["a/b"]["pairs"].shape == (3, 500)
    assert found["a/b"]["pairs"][2, 1] == 1001
    assert found["a/b"]["size"].item() == 11


def test_the_same_baselines_give_the_same_bytes() -> None:
    one, again, other = (packed({"uniform": Fitted(size=np.array(size))}) for size in (4, 4, 5))
    assert one == again != other


def test_a_run_without_any(tmp_path) -> None:
    assert load_packed(RunDirectory(tmp_path / "other").baselines_file) is None


def test_the_newest_are_kept(run) -> None:
    save_baselines(run, packed({"uniform": Fitted(size=np.array(4))}))
    assert list(load_packed(run.baselines_file)) == ["uniform"]


@pytest.mark.parametrize("length", [0, 1, 10, 400, -30])
def test_a_file_that_was_cut_is_none(run, length: int) -> None:
    run.baselines_file.write_bytes(run.baselines_file.read_bytes()[:length])
    assert load_packed(run.baselines_file) is None


def test_a_file_with_a_wrong_byte_is_none_or_right(run) -> None:
    """Wherever the byte is: no exception, and no other numbers."""
    content = run.baselines_file.read_bytes()
    whole = load_packed(run.baselines_file)
    damaged = 0
    for place in range(0, len(content), 41):
        wrong = bytearray(content)
        wrong[place] ^= 0xFF
        run.baselines_file.write_bytes(wrong)
        found = load_packed(run.baselines_file)
        damaged += found is None
        for name in found or {}:
            for key, array in found[name].items():
                assert np.array_equal(array, whole.get(name, {}).get(key, array))
    assert damaged > 8


def test_pickles_are_not_opened(run) -> None:
    np.savez(run.baselines_file, **{"evil/array": np.array([{"a": 1}], dtype=object)})
    assert load_packed(run.baselines_file) is None
