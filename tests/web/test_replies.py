"""JSON in and out: bounded, without NaN, errors as sentences."""

from __future__ import annotations

import json

from glassformer.foundation.errors import ConfigError, RunError
from glassformer.web.place import NotFound
from glassformer.web.replies import dumped, error_reply


def test_no_nan_leaves_the_server() -> None:
    assert json.loads(dumped({"a": [1.5, float("nan")], "b": (float("inf"),)})) == {"a": [1.5, None], "b": [None]}


def test_errors_are_sentences() -> None:
    answers = [error_reply(error) for error in (NotFound("a"), ConfigError("b"), RunError("c"), ZeroDivisionError("d"))]
    assert [answer.status_code for answer in answers] == [404, 400, 409, 500]
    assert json.loads(answers[1].body) == {"error": "b"}
    assert "ZeroDivisionError" in json.loads(answers[3].body)["error"]


def test_bodies_are_bounded(client) -> None:
    answer = client.post("/api/byhand/plane", content=b"[" * (5 << 20))
    assert answer.status_code == 400
    assert "larger" in answer.json()["error"]
    for content in (b"[1]", b"{", b"[" * 100_000):
        assert client.post("/api/byhand/plane", content=content).status_code == 400


def test_words_of_the_address(client) -> None:
    assert client.get("/api/run").json()["error"] == "run is missing in the address."
    assert "not a number" in client.get("/api/run/curves", params={"run": "one", "low": "nan"}).json()["error"]
