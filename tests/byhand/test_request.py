"""Requests from YAML and the command line, and the task sheet of an exercise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.byhand.explorations.base import Exploration
from glassformer.byhand.key_replacement import Replacement
from glassformer.byhand.problem import GOALS, parse_goal
from glassformer.byhand.request import ABOUT_GOALS, answer, catalogue, read_request, request_from_words, task_of
from glassformer.byhand.solver import Answer, Answers
from glassformer.foundation.errors import ConfigError, DataError, GlassformerError, UnknownName


def test_a_yaml_file_with_keys_in_another_file(tmp_path: Path):
    np.save(tmp_path / "k.npy", np.array([[0.0, 0], [1, 0], [-1, 0]]))
    (tmp_path / "p.yaml").write_text(
        "goal: select 2\nkeys: k.npy\nvalues: [[1, 2], [3, 4], [5, 6]]\nbound: 5e0\nscale: 1/sqrt(d)\n"
    )
    values, folder = request_from_words([str(tmp_path / "p.yaml")])
    result = answer(values, folder=folder)
    assert isinstance(result, Answer)
    assert result.reachable
    assert result.problem.scale == pytest.approx(2**-0.5)
    np.testing.assert_allclose(result.query, [5, 0], atol=1e-12)
    assert result.output is not None


def test_every_kind_of_request_gets_its_kind_of_result():
    identity = answer({"goal": "identity", "keys": "1,0;0,1"})
    assert isinstance(identity, Answers)
    assert (identity.problem.bound, identity.problem.scale) == (10, 1)
    assert isinstance(answer({"goal": [0.5, 0.5], "keys": [[1, 0], [0, 1]]}), Answer)
    assert isinstance(
        answer({"goal": "select 1", "keys": "worked", "replace": 1, "query": [1, 2, 3], "length": 1}), Replacement
    )
    result = answer({"explore": "copying", "settings": {"n": 5, "seed": 3}})
    assert isinstance(result, Exploration)
    assert result.settings["n"] == 5


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"keys": "worked"}, "no-goal"),
        ({"goal": "select 1"}, "no-keys"),
        ({"goal": "select 1", "keys": "worked", "query": "1,2,3"}, "no-replace"),
        ({"goal": "select 1", "keys": "worked", "length": 0}, "no-replace"),
        ({"goal": "select 1", "keys": "worked", "replace": 1, "length": 0}, "bad-length"),
        ({"goal": "select 1", "keys": "worked", "replace": 1, "logits": "1,2,3,4"}, "logits-with-replace"),
        ({"goal": "select 1", "keys": "worked", "settings": {"n": 3}}, "settings-with-goal"),
        ({"explore": "copying", "keys": "worked"}, "goal-with-exploration"),
        ({"explore": "copying", "settings": {"m": 3}}, "unknown-name"),
        ({"explore": "kopying"}, "unknown-name"),
    ],
)
def test_a_wrong_request_is_a_sentence(values, reason):
    with refused(GlassformerError, reason):
        answer(values)


def test_an_unknown_key_is_refused():
    with refused(ConfigError, "unknown-key", "boud"):
        answer({"goal": "select 1", "keys": "worked", "boud": 3})


def test_words_of_the_command_line():
    assert request_from_words(["average", "1,2"]) == ({"goal": "average 1,2"}, None)
    assert request_from_words(["heads"]) == ({"explore": "heads"}, None)
    with refused(UnknownName, "unknown-name", "averaging"):
        request_from_words(["averagin"])
    with refused(ConfigError, "words-after-exploration", "--set"):
        request_from_words(["heads", "n=3"])
    with refused(ConfigError, "words-after-file", "p.yaml"):
        request_from_words(["p.yaml", "select"])


def test_a_bad_file_is_a_sentence(tmp_path: Path):
    with refused(DataError, "missing-file", "no.yaml"):
        read_request(tmp_path / "no.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n")
    with refused(ConfigError, "not-a-mapping", "list.yaml"):
        read_request(tmp_path / "list.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with refused(DataError, "not-text", "bytes.yaml"):
        read_request(tmp_path / "bytes.yaml")


def test_the_catalogue_lists_everything_that_can_be_asked():
    everything = catalogue()
    assert [row["name"] for row in everything["goals"]] == list(GOALS) == list(ABOUT_GOALS)
    for row in everything["goals"]:
        example = row["about"].split(":")[0].split(" (")[0]
        assert len(parse_goal(example, 4).rows) in (1, 4), "the example of every goal can be asked"
    names = [row["name"] for row in everything["explorations"]]
    assert names == ["argmax", "averaging", "copying", "heads", "outer-products", "scaling", "superposition"]


def test_a_goal() -> None:
    task = task_of({"goal": "select 2", "keys": "1,0;0,1", "bound": 5})
    assert "key 1 = (1, 0)" in task
    assert "|q| at most 5" in task
    assert "select 2" in task


def test_an_exploration_shows_its_settings() -> None:
    task = task_of({"explore": "argmax", "settings": {}})
    assert task.startswith("Exercise (argmax). ")
    assert "Given: " in task


def test_the_worked_keys() -> None:
    assert "key 4 = (0.43, -0.83, 0.35)" in task_of({"goal": "identity", "keys": "worked"})
