"""What processes hand each other, without any: results as bytes, the process that is alone, the place torchrun gives."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, OtherProcessFailed, UsageError, exit_code_of
from glassformer.foundation.process_rank import Place, place_of
from glassformer.training.parallel.group import ALONE, TIMEOUT, Group, _packed, _unpacked, holds_up, is_lost, seconds_of

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1"}


@pytest.mark.parametrize("result", [np.arange(6.0).reshape(2, 3), (np.arange(3), np.ones((2, 0)), np.float64(2.5))])
def test_results_arrive_as_they_were(result) -> None:
    found = _unpacked(_packed(result))
    if not isinstance(result, tuple):
        found, result = (found,), (result,)
    for one, other in zip(found, result, strict=True):
        assert one.dtype == np.asarray(other).dtype
        assert np.array_equal(one, other)


def test_alone_every_answer_is_its_own() -> None:
    assert ALONE.leads
    assert ALONE.largest(15) == 15
    assert ALONE.once(lambda: 3) == 3
    assert list(ALONE.shared(iter([1, 2]), lambda item: item + 1)) == [2, 3]
    assert ALONE.share(4) == range(4)
    ALONE.require_same({"anything": 1})


def test_the_place_that_torchrun_gives() -> None:
    assert place_of({}) is None
    assert place_of(TORCHRUN) == Place(5, 8, 1, 4)
    assert Place(5, 8, 1, 4).nodes == 2
    with pytest.raises(UsageError):
        place_of({**TORCHRUN, "RANK": "first"})


def test_what_counts_as_a_lost_process() -> None:
    assert is_lost(RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer"))
    assert not is_lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert exit_code_of(OtherProcessFailed("x", code=4)) == 4


def test_the_time_to_wait(monkeypatch) -> None:
    assert seconds_of(TIMEOUT, 600.0) == 600.0
    for given, found in (("2.5", 2.5), ("soon", 600.0)):
        monkeypatch.setenv(TIMEOUT, given)
        assert seconds_of(TIMEOUT, 600.0) == found


def test_how_long_a_step_may_keep_the_others_waiting(monkeypatch) -> None:
    """The first step, in which a GPU loads its kernels, says nothing about the others."""
    clock, group = [0.0], object.__new__(Group)
    monkeypatch.setattr("glassformer.training.parallel.group.time.monotonic", lambda: clock[0])
    facts = {"_waited": 0.0, "_patience": 4.0, "_may_take": 60.0, "_does": "", "_longest": {}, "_begun": set()}
    vars(group).update(facts)
    allowed = []
    for seconds in (8.0, 0.1, 0.5, 2.0, 0.1):
        with group.paced("step"):
            allowed.append(group._may_take)
            clock[0] += seconds
    assert allowed == [60.0, 60.0, 4.0, 5.0, 20.0]
    assert group._may_take == 60.0


@pytest.mark.parametrize(
    ("here", "other", "held"),
    [
        ((7, ""), (8, "sum"), True),  # it computes, and another one waits in the next sum
        ((7, ""), (7, "sum"), False),  # that one is past
        ((8, "sum"), (8, "sum"), False),  # both wait, for a third
        ((8, "sum"), (8, "once"), True),  # neither ever ends
        ((8, "once"), (9, "sum"), False),  # rank 0 is ahead: its word is on the way
        ((7, ""), (9, "reading"), True),  # another one's GPU waits for this one's gradients
        ((9, "reading"), (9, "sum"), False),
    ],
)
def test_who_keeps_whom_waiting(here: tuple[int, str], other: tuple[int, str], held: bool) -> None:
    assert holds_up(here, other) == held


def test_lists_arrive_as_they_were() -> None:
    found = [[[3, 1, 2], -0.1 - 1e-17, True], []]
    assert _unpacked(_packed(found)) == found


@pytest.mark.parametrize("fact", ["code", "data", "torch", "threads", "device_name"])
def test_facts_in_which_processes_may_not_differ(fact: str) -> None:
    """Each is one of those that a run compares (``experiment._facts_of``)."""
    own = dict.fromkeys(("recipe", "code", "data", "torch", "threads", "device_name"), "the same")
    others = [own, own, {**own, fact: "another"}]
    group: Any = SimpleNamespace(gather=lambda content: [json.dumps(one).encode() for one in others])
    with refused(ConfigError, "processes-differ", fact, "process 2"):
        Group.require_same(group, own)
    others.pop()
    Group.require_same(group, own)
