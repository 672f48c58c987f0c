"""Batches by arithmetic: a permutation, each window once per epoch, the same from any step onwards."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data import batches
from glassformer.data.batches import DeviceBatches, WindowBatches, shuffled
from glassformer.foundation.errors import DataError

SIZES = st.integers(1, 400)
SEEDS = st.integers(0, 2**63 - 1)


def made(tokens: int = 200, context: int = 7, batch_size: int = 5, seed: int = 3) -> WindowBatches:
    return WindowBatches(np.arange(tokens, dtype=np.uint16), context=context, batch_size=batch_size, seed=seed)


@given(SIZES, SEEDS)
def test_the_shuffle_is_a_permutation(size: int, seed: int) -> None:
    assert sorted(shuffled(np.arange(size), size, seed).tolist()) == list(range(size))


@given(SIZES, SEEDS, st.data())
def test_it_can_be_asked_anywhere(size: int, seed: int, data) -> None:
    places = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=9)))
    assert shuffled(places, size, seed).tolist() == shuffled(np.arange(size), size, seed)[places].tolist()


def test_huge_corpora_do_not_overflow() -> None:
    size = 10**15 + 37
    places = np.array([0, 1, size // 2, size - 1])
    moved = shuffled(places, size, 7)
    assert len(set(moved.tolist())) == 4
    assert all(0 <= place < size for place in moved)


def test_every_order_of_four_is_about_equally_likely() -> None:
    """24 orders, 1,200 seeds: 50 of each expected; chi-squared with 23 degrees of freedom is in 7..55 in 99.97 %."""
    orders = dict.fromkeys(itertools.permutations(range(4)), 0)
    for seed in range(1200):
        orders[tuple(shuffled(np.arange(4), 4, seed).tolist())] += 1
    assert 7 < sum((count - 50) ** 2 / 50 for count in orders.values()) < 55


def test_by_hand() -> None:
    """Tokens are their own places, so a batch shows where it was cut: targets are one on."""
    batch = made().batch(4)
    assert batch["ids"].shape == batch["targets"].shape == (5, 7)
    assert batch["ids"].dtype == torch.int64
    assert torch.equal(batch["targets"], batch["ids"] + 1)
    assert torch.equal(batch["ids"][:, 0], torch.from_numpy(made().starts(4)[0]))
    assert torch.equal(batch["ids"] - batch["ids"][:, :1], torch.arange(7).expand(5, 7))


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    first, other = made(), made()
    other.batch(9)  # nothing is remembered
    assert torch.equal(first.batch(123)["ids"], other.batch(123)["ids"])
    assert not torch.equal(first.batch(123)["ids"], first.batch(124)["ids"])
    assert not torch.equal(first.batch(123)["ids"], made(seed=4).batch(123)["ids"])


@given(st.integers(2, 90), st.integers(1, 12), st.integers(1, 9), SEEDS)
@settings(max_examples=200)
def test_each_window_once_per_epoch(tokens: int, context: int, batch_size: int, seed: int) -> None:
    if tokens < context + 1:
        return
    batches = made(tokens, context, batch_size, seed)
    served = batches.starts(0, 3 * batches.windows)  # three epochs, mid-epoch ends of batches included
    for epoch in range(3):
        starts = np.sort(served.ravel()[epoch * batches.windows : (epoch + 1) * batches.windows])
        assert starts[0] >= 0
        assert starts[-1] + context + 1 <= tokens
        assert (np.diff(starts) == context).all()  # tiles: no token is an input twice
    assert tokens - batches.windows * context <= 2 * context + 1  # little is left out, and not the same in each epoch


def test_going_on_in_the_middle_of_an_epoch() -> None:
    unbroken, resumed = made(), made()
    assert 17 % unbroken.steps_per_epoch > 0
    for step in range(17, 40):
        assert torch.equal(unbroken.batch(step)["ids"], resumed.batch(step)["ids"])
    assert np.array_equal(made().starts(3, 9), np.concatenate([made().starts(step) for step in range(3, 12)]))


def test_epochs_differ_in_order_and_in_offset() -> None:
    batches = made(tokens=1000, context=10, batch_size=1)
    epochs = batches.starts(0, 4 * batches.windows).reshape(4, -1)
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 4
    assert len({int(epoch.min()) for epoch in epochs}) > 1


def test_the_length_of_an_epoch() -> None:
    assert made(tokens=71, context=7, batch_size=3).windows == 9  # 71 = 10 * 7 + 1: ten tiles would leave no offset
    assert made(tokens=71, context=7, batch_size=3).steps_per_epoch == 3.0


def test_a_text_shorter_than_the_context() -> None:
    assert made(tokens=8, context=7).batch(3)["ids"].tolist() == [list(range(7))] * 5
    with refused(DataError, "text-too-short", "7", "model.context=7", "8"):
        made(tokens=7, context=7)


def test_on_a_device_the_same_batches(monkeypatch) -> None:
    monkeypatch.setattr(DeviceBatches, "AHEAD", 3)
    batches = made()
    on_device = DeviceBatches(batches, torch.device("cpu"))
    for step in (0, 1, 2, 3, 4, 70, 5):
        for ours, theirs in zip(on_device.batch(step).tensors.values(), batches.batch(step).tensors.values()):
            assert torch.equal(ours, theirs)
    assert on_device.steps_per_epoch == batches.steps_per_epoch
    assert on_device.on(torch.device("cpu")) is on_device


def test_where_batches_are_made(monkeypatch) -> None:
    batches = made()
    assert batches.on(torch.device("cpu")) is batches
    assert isinstance(batches.on(torch.device("meta")), DeviceBatches)
    monkeypatch.setattr("glassformer.data.batches.LARGEST_ON_DEVICE", 100)
    assert batches.on(torch.device("meta")) is batches


def test_moving_a_batch() -> None:
    moved = made().batch(0).to(torch.device("meta"))
    assert moved["ids"].device.type == moved["targets"].device.type == "meta"


def test_batches_of_a_large_file_give_its_memory_back(tmp_path, monkeypatch) -> None:
    released: list[int] = []
    monkeypatch.setattr(batches, "release_pages", lambda array: released.append(array.nbytes))
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "tokens")
    mapped = np.memmap(tmp_path / "tokens", np.uint16, mode="r")
    source = WindowBatches(mapped, context=7, batch_size=3, seed=0)
    expected = source.batch(0)
    assert released == []
    monkeypatch.setattr(batches, "LARGE_FILE", 100)
    assert torch.equal(source.batch(0)["ids"], expected["ids"])
    assert released == [2000]
