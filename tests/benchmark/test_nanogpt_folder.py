"""A scratch copy of a nanoGPT folder: the files that training takes, the texts as its data, nothing else."""

from __future__ import annotations

import pickle

import pytest

from glassformer.benchmark.nanogpt_folder import nanogpt_options, prepare_nanogpt
from glassformer.foundation.errors import UsageError

TEXTS = (b"\x01\x00\x02\x00", b"\x03\x00", 5)


def test_the_copy_holds_the_files_that_were_asked_for_and_the_data(nanogpt, tmp_path) -> None:
    (nanogpt / "config").mkdir()
    for name in ("config/own.py", "bench.py"):
        (nanogpt / name).write_text("# mine")
    scratch = tmp_path / "scratch"
    prepare_nanogpt(nanogpt, scratch, TEXTS, "config/own.py")
    found = {file.relative_to(scratch).as_posix(): file.read_bytes() for file in scratch.rglob("*") if file.is_file()}
    data = {f"data/bench/{name}": found.pop(f"data/bench/{name}") for name in ("train.bin", "val.bin", "meta.pkl")}
    assert (data["data/bench/train.bin"], data["data/bench/val.bin"]) == TEXTS[:2]
    assert pickle.loads(data["data/bench/meta.pkl"]) == {"vocab_size": 5}
    assert found == {
        name: (nanogpt / name).read_bytes() for name in ("train.py", "model.py", "configurator.py", "config/own.py")
    }


def test_nothing_of_an_earlier_copy_is_left(nanogpt, tmp_path) -> None:
    left = tmp_path / "scratch" / "out" / "ckpt.pt"
    left.parent.mkdir(parents=True)
    left.touch()
    prepare_nanogpt(nanogpt, tmp_path / "scratch", TEXTS)
    assert not left.exists()


def test_a_folder_without_its_files_is_refused_before_anything_is_removed(tmp_path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(UsageError, match=r"has no train\.py; give the folder of a nanoGPT checkout"):
        prepare_nanogpt(tmp_path, scratch, TEXTS)
    assert scratch.exists()


def test_options_name_our_data_and_given_values_win() -> None:
    assert nanogpt_options({"n_layer": 2, "out_dir": "there"}) == ["--dataset=bench", "--out_dir=there", "--n_layer=2"]
