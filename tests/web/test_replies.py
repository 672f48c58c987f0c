"""JSON in and out: bounded, without NaN, errors as sentences."""

from __future__ import annotations

import asyncio
import json
import os

from starlette.responses import Response

from glassformer.foundation.errors import ConfigError, RunError
from glassformer.web.replies import answered, dumped, error_reply, reply
from glassformer.web.served_folder import NotFound


def test_no_nan_leaves_the_server() -> None:
    assert json.loads(dumped({"a": [1.5, float("nan")], "b": (float("inf"),)})) == {"a": [1.5, None], "b": [None]}


def test_a_name_that_is_no_text_hides_no_other(client, folder) -> None:
    os.rename(folder / "two", os.path.join(os.fsencode(folder), b"bad\xff"))
    answer = client.get("/api/folder")
    assert answer.status_code == 200
    assert sorted(row["name"] for row in answer.json()["runs"]) == ["bad?", "one"]
    assert dumped({"\udcff": ["\ud800x", "\U0001f600"]}) == '{"?": ["?x", "\U0001f600"]}'


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
    assert client.get("/api/run").json()["error"] == "run is missing."
    assert "not a number" in client.get("/api/run/curves", params={"run": "one", "low": "nan"}).json()["error"]


def test_a_server_that_is_stopped_answers_what_it_has_begun() -> None:
    async def journey() -> int:
        async def slow(request: object) -> Response:
            await asyncio.sleep(60)
            return reply({})

        task = asyncio.create_task(answered(slow)(None))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        return (await task).status_code

    assert asyncio.run(journey()) == 503
