"""Numbers from text, lists, arrays and files; goals and problems; refusals that name what is wrong."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.byhand.problem import GOALS, MAX_BYTES, as_matrix, as_number, as_vector, make_problem, parse_goal
from glassformer.foundation.errors import ConfigError, DataError, GlassformerError


@pytest.mark.parametrize(
    "value", ["1,2,3;4,5,6", "1 2 3\n4 5 6", "[1, 2, 3]; [4, 5, 6]", [[1, 2, 3], [4, 5, 6]], "2/2,2,3;4,5,12/2"]
)
def test_reads_rows_however_they_are_written(value):
    np.testing.assert_array_equal(as_matrix("keys", value), [[1, 2, 3], [4, 5, 6]])


def test_reads_files_relative_to_a_folder(tmp_path: Path):
    rows = np.array([[1.5, -2.0, 0.25], [0.0, 3.0, 1e-3]])
    np.save(tmp_path / "keys.npy", rows)
    (tmp_path / "keys.csv").write_text("# a remark\n1.5,-2,1/4\n\n0,3,1e-3\n")
    for name in ("keys.npy", "keys.csv"):
        np.testing.assert_array_equal(as_matrix("keys", name, folder=tmp_path), rows)
    np.testing.assert_array_equal(as_matrix("keys", tmp_path / "keys.npy"), rows)


def test_vectors_may_stand_in_a_row_or_a_column():
    np.testing.assert_array_equal(as_vector("query", "1,2,3"), [1, 2, 3])
    np.testing.assert_array_equal(as_vector("query", "1;2;3"), [1, 2, 3])
    np.testing.assert_array_equal(as_vector("query", np.array([1, 2, 3])), [1, 2, 3])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("1,2;3", "ragged-rows"),
        ([[1, 2], [3]], "ragged-rows"),
        ("1,x", "not-a-number"),
        ("1/0,2", "not-a-number"),
        ("nan,1;2,3", "not-finite"),
        ([[1.0, 2.0], [np.inf, 3.0]], "not-finite"),
        ("", "not-two-dimensional"),
        ([[]], "empty"),
        ([1, 2, 3], "not-two-dimensional"),
        ([[1j, 2]], "not-real"),
        ([["a", "b"]], "not-real"),
        ([[True, False]], "not-real"),
        ("1e12,0", "entry-too-large"),
        (np.zeros((1001, 1)), "too-large"),
    ],
)
def test_says_what_is_wrong_with_a_matrix(value, reason):
    with refused(ConfigError, reason, "keys"):
        as_matrix("keys", value)


@pytest.mark.parametrize("value", [[[1, 2], [3, 4]], [], "1,2;3,4", 5.0])
def test_says_what_is_wrong_with_a_vector(value):
    with refused(ConfigError, "not-one-row", "query"):
        as_vector("query", value)


@pytest.mark.parametrize(("value", "number"), [("1/4", 0.25), (3, 3.0), (".5", 0.5), (np.float32(2), 2.0)])
def test_reads_a_number(value, number):
    assert as_number("bound", value) == number


@pytest.mark.parametrize("value", [True, None, "inf", float("nan"), "many", [1]])
def test_refuses_what_is_no_number(value):
    with pytest.raises(ConfigError, match="bound"):
        as_number("bound", value)


def test_names_the_line_of_a_bad_file(tmp_path: Path):
    file = tmp_path / "k.csv"
    file.write_text("1,2\n3,oh\n")
    with refused(DataError, "not-a-number", "k.csv", "line 2", "'oh'"):
        as_matrix("keys", str(file))
    file.write_text("1,2\n\n3\n")
    with refused(DataError, "ragged-rows", "line 3"):
        as_matrix("keys", str(file))
    file.write_text("# nothing\n")
    with refused(DataError, "empty", "k.csv"):
        as_matrix("keys", str(file))
    file.write_bytes(b"1,\xff\n")
    with refused(DataError, "not-utf8"):
        as_matrix("keys", str(file))


def test_never_unpickles_and_never_believes_a_header(tmp_path: Path):
    pickled = tmp_path / "p.npy"
    np.save(pickled, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with refused(DataError, "not-npy"):
        as_matrix("keys", str(pickled))
    bare = tmp_path / "b.npy"
    bare.write_bytes(pickle.dumps([[1.0, 2.0]]))
    np.savez(tmp_path / "z.npz", a=np.eye(2))
    (tmp_path / "z.npz").rename(tmp_path / "z.npy")
    for file in (bare, tmp_path / "z.npy"):
        with refused(DataError, "not-npy"):
            as_matrix("keys", str(file))
    lying = tmp_path / "l.npy"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000, 10000000), }".ljust(117) + b"\n"
    lying.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 16)
    with refused(DataError, "not-npy"):
        as_matrix("keys", str(lying))
    huge = tmp_path / "h.csv"
    with huge.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with refused(DataError, "file-too-large", "h.csv"):
        as_matrix("keys", str(huge))
    with refused(DataError, "missing-file", "nowhere.npy"):
        as_matrix("keys", "nowhere.npy", folder=tmp_path)


def test_goals_become_weights():
    np.testing.assert_array_equal(parse_goal("select 2", 3).rows, [[0, 1, 0]])
    np.testing.assert_array_equal(parse_goal("identity", 3).rows, np.eye(3))
    np.testing.assert_array_equal(parse_goal("average 3, 1", 4).rows, [[0.5, 0, 0.5, 0]])
    np.testing.assert_array_equal(parse_goal("average {1 2}", 2).rows, [[0.5, 0.5]])
    np.testing.assert_array_equal(parse_goal("average all", 5).rows, [[0.2] * 5])
    np.testing.assert_array_equal(parse_goal("weights 1/4 .75 0", 3).rows, [[0.25, 0.75, 0]])
    np.testing.assert_array_equal(parse_goal(np.array([0.25, 0.75]), 2).rows, [[0.25, 0.75]])
    assert parse_goal("average 3,1", 4).text == "average 1,3"


def test_weights_are_brought_to_sum_one_exactly():
    assert parse_goal("weights .3333333,.3333333,.3333333", 3).rows.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("goal", "reason"),
    [
        ("select", "no-key-named"),
        ("select 0", "no-such-key"),
        ("select 4", "no-such-key"),
        ("select 1.5", "no-such-key"),
        ("select 1,2", "select-several"),
        ("average", "no-key-named"),
        ("average {}", "no-key-named"),
        ("average 1,1", "key-twice"),
        ("average one", "not-a-number"),
        ("identity 2", "identity-with-more"),
        ("weights", "no-weights"),
        ("weights .5,.5", "weights-per-key"),
        ("weights .5,.6,-.1", "negative-weight"),
        ("weights .5,.5,.5", "weights-sum"),
        ("weights 0,0,0", "weights-sum"),
        ("chose 1", "unknown-name"),
        ("slect 1", "unknown-name"),
    ],
)
def test_says_what_is_wrong_with_a_goal(goal, reason):
    with refused(ConfigError, reason):
        parse_goal(goal, 3)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"values": "1;2"}, "values-per-key"),
        ({"bound": 0}, "bad-length"),
        ({"bound": "-1"}, "bad-length"),
        ({"bound": float("nan")}, "not-finite"),
        ({"scale": 0}, "bad-scale"),
        ({"scale": "1/sqrt(n)"}, "not-a-number"),
        ({"logits": [1, 2]}, "logits-per-key"),
    ],
)
def test_says_what_is_wrong_with_a_problem(settings, reason):
    with refused(GlassformerError, reason):
        make_problem("worked", "select 1", **settings)


def test_scale_may_be_that_of_models():
    assert make_problem("worked", "select 1", scale="1/sqrt(d)").scale == pytest.approx(3**-0.5, abs=1e-15)
    assert make_problem("worked", "select 1", scale=0.25).scale == 0.25


def test_plain_holds_what_was_asked():
    plain = make_problem("1,2;3,4;5,6", "average 1,3", values="1;2;3", bound=7).to_dict()
    assert plain == {
        "goal": "average 1,3",
        "keys": [[1, 2], [3, 4], [5, 6]],
        "bound": 7,
        "scale": 1,
        "values": [[1], [2], [3]],
    }
    assert set(GOALS) == {"select", "identity", "average", "weights"}
