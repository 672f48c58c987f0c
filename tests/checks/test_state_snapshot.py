"""What a model holds, put back bit by bit: tensors in place, attributes, containers, closures, generators, memories."""

from __future__ import annotations

import functools
import random
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.checks.state_snapshot import Snapshot, version_of

COUNT = 0


class Holder(nn.Module):
    shared = [1, 2]  # noqa: RUF012  # on purpose: one list for all

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))
        self.register_buffer("table", torch.arange(4.0))
        self.inner = nn.Linear(2, 5)
        self.number, self.plain_tensor = 7, torch.arange(6.0)
        self.names = {"a": 1, "inside": [10, 20]}
        self.queue, self.kinds = deque([1, 2], maxlen=9), {3, 4}
        self.ordered, self.missing = OrderedDict(x=1, y=2), defaultdict(list, k=[1])


def write_past_the_version(holder: Holder) -> None:
    holder.table.data.numpy()[1] = 9.0


CHANGES = {
    "weight": lambda h: h.weight.data.add_(1),
    "table": lambda h: h.table.add_(1),
    "table past its version": write_past_the_version,
    "inner.bias": lambda h: h.inner.bias.data.fill_(2.0),
    "plain_tensor": lambda h: h.plain_tensor.resize_(2),
    "a number": lambda h: setattr(h, "number", 8),
    "another tensor": lambda h: setattr(h, "plain_tensor", torch.zeros(6)),
    "a new attribute": lambda h: setattr(h, "more", [1]),
    "an attribute less": lambda h: delattr(h, "number"),
    "a mode": lambda h: h.train(False),
    "the mode of a part": lambda h: h.inner.train(False),
    "a dict": lambda h: h.names.update(b=2),
    "a list in a dict": lambda h: h.names["inside"].append(30),
    "a queue": lambda h: h.queue.rotate(),
    "a set": lambda h: h.kinds.add(5),
    "a default dict": lambda h: h.missing["new"],
    "the class's list": lambda h: h.shared.append(3),
    "a buffer that is another": lambda h: setattr(h, "table", torch.zeros(4)),
    "a gradient asked for": lambda h: h.plain_tensor.requires_grad_(True),
    "a weight frozen": lambda h: h.weight.requires_grad_(False),
}


def picture(holder: Holder) -> str:
    facts = {key: value for key, value in vars(holder).items() if not key.startswith("_")}
    tensors = {name: (tensor.tolist(), tensor.requires_grad) for name, tensor in holder.state_dict(keep_vars=True).items()}
    return str((facts, tensors, holder.shared, holder.inner.training, holder.plain_tensor.requires_grad))


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_seen_and_put_back(change: str) -> None:
    holder = Holder()
    before, snapshot = picture(holder), Snapshot(holder)
    assert snapshot.changed() == []
    CHANGES[change](holder)
    assert picture(holder) != before
    assert snapshot.changed() != []
    assert snapshot.restore() != []
    assert picture(holder) == before
    assert snapshot.changed() == []


def test_tensors_are_put_back_in_place() -> None:
    holder = Holder()
    mine, snapshot = holder.table, Snapshot(holder)
    holder.table = torch.zeros(4)
    mine.mul_(3)
    snapshot.restore()
    assert holder.table is mine
    assert mine.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_names_say_where() -> None:
    holder = Holder()
    snapshot = Snapshot(holder)
    holder.inner.bias.data = torch.ones(5)
    holder.names["inside"][0] = 11
    assert {"inner.bias", "names.inside"} <= set(snapshot.changed())


def test_nan_where_nan_was_is_no_change() -> None:
    holder = Holder()
    holder.table[2] = float("nan")
    snapshot = Snapshot(holder)
    holder.table.mul_(1.0)
    assert snapshot.changed() == []
    holder.table[2] = 2.0
    assert snapshot.changed() == ["table"]


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (torch.Generator().manual_seed(3), lambda g: torch.rand(2, generator=g).tolist()),
        (random.Random(3), lambda g: g.random()),
        (np.random.default_rng(3), lambda g: g.random()),
    ],
    ids=["torch", "python", "numpy"],
)
def test_generators_go_back(generator, draw) -> None:
    snapshot = Snapshot({"generator": generator})
    first = draw(generator)
    assert snapshot.restore() == ["generator"]
    assert draw(generator) == first


def test_a_closure_and_a_global_name_go_back() -> None:
    calls = 0

    def count() -> int:
        global COUNT
        nonlocal calls
        calls, COUNT = calls + 1, COUNT + 1
        return calls

    snapshot = Snapshot(count)
    count()
    assert (calls, COUNT) == (1, 1)
    assert set(snapshot.restore()) == {"calls", "COUNT"}
    assert (calls, COUNT) == (0, 0)


def test_memories_of_functions_are_emptied() -> None:
    @functools.lru_cache
    def remembered(n: int) -> int:
        return n + len(seen)

    seen: list[int] = []
    snapshot = Snapshot({"f": remembered})
    assert remembered(2) == 2
    seen.append(0)
    assert remembered(2) == 2
    snapshot.restore()
    assert remembered(2) == 3


def test_things_that_hold_each_other_end() -> None:
    one, two = {"name": 1}, {"name": 2}
    one["other"], two["other"] = two, one
    snapshot = Snapshot(one)
    two["name"] = 3
    snapshot.restore()
    assert two["name"] == 2


def test_weights_of_a_large_model_are_not_copied(monkeypatch) -> None:
    monkeypatch.setattr("glassformer.checks.state_snapshot.CLONED_PARAMETERS", 17)  # the model has 3 + 15
    holder = Holder()
    snapshot = Snapshot(holder)
    holder.weight.data.add_(1)
    holder.table.add_(1)
    assert snapshot.restore() == ["table"]
    assert holder.weight.tolist() == [1.0, 2.0, 3.0]


def test_how_often_a_tensor_was_written() -> None:
    tensor = torch.zeros(2)
    before = version_of(tensor)
    tensor.add_(1)
    assert version_of(tensor) == before + 1
    with torch.inference_mode():
        assert version_of(torch.zeros(2)) == -1
