"""A classifier behind HTTP: ``POST /predict`` with a token that can do nothing else, batched over requests, with OpenAPI.

Requests that arrive while a batch is computed form the next one, so many clients share the work of one forward pass. What is
too much at once is refused with 503 instead of filling the memory. No page, no files, no other verb.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.data.reading.corpus import Target
from glassformer.foundation.errors import UsageError
from glassformer.foundation.machine import give_large_blocks_back
from glassformer.web.replies import answered, body, reply
from glassformer.web.security import EVERYWHERE
from glassformer.web.server import listen

MOST_TEXTS, LONGEST = 256, 100_000
"""Texts of one request, and characters of one text."""
MOST_WAITING = 4096
"""Texts that wait for their batch; further requests are refused."""
AT_ONCE = 64
"""Texts of one batch: more makes the first client wait longer, and no one's answer come sooner on a CPU."""
TOKEN = "GLASSFORMER_API_TOKEN"

Job = Callable[[list[str], list[str] | None], list[dict[str, Any]]]


class _Waiting(NamedTuple):
    texts: list[str]
    pairs: list[str] | None
    answer: asyncio.Future[list[dict[str, Any]]]


@final
class Batcher:
    """Collects the texts of waiting requests, and computes them together in one thread."""

    def __init__(self, job: Job) -> None:
        self._job, self._thread = job, ThreadPoolExecutor(max_workers=1, thread_name_prefix="predictions")
        self._waiting: list[_Waiting] = []
        self._there = asyncio.Event()

    async def predict(self, texts: list[str], pairs: list[str] | None) -> list[dict[str, Any]] | None:
        """The predictions of one request; None if too many texts wait."""
        if sum(len(one.texts) for one in self._waiting) + len(texts) > MOST_WAITING:
            return None
        answer: asyncio.Future[list[dict[str, Any]]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(texts, pairs, answer))
        self._there.set()
        return await answer

    async def run(self) -> None:
        """Computes batch after batch, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._there.wait()
            batch: list[_Waiting] = []
            while self._waiting and (not batch or sum(len(one.texts) for one in batch) < AT_ONCE):
                batch.append(self._waiting.pop(0))
            if not self._waiting:
                self._there.clear()
            batch = [one for one in batch if not one.answer.cancelled()]  # its client went away
            if not batch:
                continue
            texts = [text for one in batch for text in one.texts]
            pairs = None if batch[0].pairs is None else [pair for one in batch for pair in one.pairs or ()]
            try:
                found = await loop.run_in_executor(self._thread, self._job, texts, pairs)
            except Exception as error:
                for one in batch:
                    if not one.answer.done():
                        one.answer.set_exception(error)
                continue
            for one in batch:
                if not one.answer.done():
                    one.answer.set_result(found[: len(one.texts)])
                found = found[len(one.texts) :]

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def make_api(job: Job, *, token: str, labels: list[str], pairs: bool, about: str, target: Target = "class") -> Starlette:
    """The application. ``job``: texts (and second texts) -> predictions as plain values."""
    batcher = Batcher(job)
    document = openapi(labels, pairs=pairs, about=about, target=target)

    def refusal(request: Request) -> Response | None:
        given = request.headers.get("authorization", "")
        if hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return None
        return reply({"error": "Send the token as `Authorization: Bearer TOKEN`."}, 401)

    async def predict(request: Request) -> Response:
        if (refused := refusal(request)) is not None:
            return refused
        values = await body(request)
        texts, seconds = _texts(values, "texts"), _texts(values, "pairs") if pairs else None
        if unknown := sorted(set(values) - {"texts", *(["pairs"] if pairs else [])}):
            raise UsageError(f"{unknown[0]} is no key of a request; give texts{' and pairs' * pairs}.", reason="unknown-key")
        if seconds is not None and len(seconds) != len(texts):
            raise UsageError(
                f"There are {len(texts)} texts and {len(seconds)} pairs; give one for each.", reason="pair-missing"
            )
        found = await batcher.predict(texts, seconds)
        if found is None:
            return reply({"error": f"More than {MOST_WAITING} texts wait already; try again."}, 503)
        return reply({"predictions": found})

    async def schema(request: Request) -> Response:
        return reply(document)

    async def health(request: Request) -> Response:
        return reply({"status": "ready"})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        work = asyncio.create_task(batcher.run())
        yield
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        batcher.close()

    routes = [
        Route("/predict", answered(predict), methods=["POST"]),
        Route("/openapi.json", answered(schema), methods=["GET"]),
        Route("/health", answered(health), methods=["GET"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def _texts(values: dict[str, Any], key: str) -> list[str]:
    """A list of texts of a request; one text alone is a list of one."""
    given = values.get(key)
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list) or not found or len(found) > MOST_TEXTS:
        raise UsageError(f"{key} must be a list of 1 to {MOST_TEXTS} texts.", reason="not-texts")
    for text in found:
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
            raise UsageError(f"each of {key} must be a text of 1 to {LONGEST:,} characters.", reason="not-texts")
    return found


def openapi(labels: list[str], *, pairs: bool, about: str, target: Target = "class") -> dict[str, Any]:
    """The OpenAPI document of the endpoint."""
    texts = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST_TEXTS}
    answers: dict[Target, dict[str, Any]] = {
        "class": {
            "label": {"type": ["string", "null"], "enum": [*labels, None], "description": "null: the answer is withheld"},
            "confidence": {"type": "number"},
            "abstained": {"type": "boolean"},
        },
        "several": {"labels": {"type": "array", "items": {"type": "string", "enum": labels}}},
        "number": {
            "value": {"type": "number"},
            "low": {"type": ["number", "null"], "description": "90 % of such numbers are between low and high"},
            "high": {"type": ["number", "null"]},
        },
    }
    unlike = {
        "unlike": {"type": ["boolean", "null"], "description": "the text is unlike anything seen in training"},
        "typicality": {"type": ["number", "null"], "description": "the share of validation texts that are as strange"},
    }
    chances = {"probabilities": {"type": "object", "additionalProperties": {"type": "number"}}} if target != "number" else {}
    prediction = {"type": "object", "properties": {**answers[target], **unlike, **chances}}
    request = {"type": "object", "required": ["texts", *(["pairs"] if pairs else [])], "additionalProperties": False}
    request["properties"] = {"texts": texts, **({"pairs": texts} if pairs else {})}
    answer = {"type": "object", "properties": {"predictions": {"type": "array", "items": prediction}}}
    error = {"type": "object", "properties": {"error": {"type": "string"}}}

    def content(schema: dict[str, Any]) -> dict[str, Any]:
        return {"application/json": {"schema": schema}}

    refusals = {
        "400": "the request is wrong",
        "401": "the token is missing or wrong",
        "503": "too many texts wait",
    }
    responses: dict[str, Any] = {"200": {"description": "one prediction for each text", "content": content(answer)}}
    responses |= {code: {"description": what, "content": content(error)} for code, what in refusals.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Glassformer classifier", "version": "1", "description": about},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": {
            "/predict": {
                "post": {
                    "summary": "Label texts",
                    "security": [{"token": []}],
                    "requestBody": {"required": True, "content": content(request)},
                    "responses": responses,
                }
            },
            "/health": {"get": {"summary": "Whether it is ready", "responses": {"200": {"description": "ready"}}}},
        },
    }


def serve_api(
    run: Path,
    *,
    port: int,
    host: str,
    on_ready: Callable[[str, str], None],
    precision: float | None = None,
    coverage: float | None = None,
    abstain_below: float | None = None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Serves a run until stopped. ``on_ready`` is called with the address and the token once the server listens."""
    import uvicorn

    from glassformer.run import load

    give_large_blocks_back()  # every batch has another shape
    predictor = load(run).predictor()
    below, sentence = predictor.threshold(precision=precision, coverage=coverage, abstain_below=abstain_below)
    if sentence:
        say(sentence)
    pairs = load(run).reading_of_labels().get("pair_column") is not None

    def job(texts: list[str], seconds: list[str] | None) -> list[dict[str, Any]]:
        return [one.to_dict() for one in predictor.predict(texts, pairs=seconds, abstain_below=below)]

    first = ["a text"]
    job(first, first if pairs else None)  # the first forward pass allocates; no client should wait for that
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    labels = list(predictor.label_names)
    about = f"{'Number' if predictor.target == 'number' else 'Labels'}: {', '.join(labels)}."
    app = make_api(job, token=token, labels=labels, pairs=pairs, about=about, target=predictor.target)
    listening = listen(host, port)
    shown = "127.0.0.1" if host in EVERYWHERE else host
    settings = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=5, server_header=False, lifespan="on"
    )
    on_ready(f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/predict", token)
    uvicorn.Server(settings).run(sockets=[listening])
