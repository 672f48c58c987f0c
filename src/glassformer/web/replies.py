"""Requests and answers in JSON: bodies of bounded size, errors as one sentence, no NaN in any document."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from glassformer.foundation.errors import GlassformerError, UsageError, is_panic
from glassformer.web.served_folder import NotFound

LARGEST_BODY = 4 << 20

Handler = Callable[[Request], Awaitable[Response]]


def reply(document: Any, status: int = 200) -> Response:
    """One JSON document."""
    return Response(dumped(document), status_code=status, media_type="application/json")


def dumped(document: Any) -> str:
    """JSON text; non-finite numbers become null, undecodable bytes of file names question marks."""
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_without_nan(document), ensure_ascii=False, allow_nan=False)
    return text.encode(errors="replace").decode()


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def text_of(values: dict[str, Any], name: str, default: str | None = None) -> str:
    """A text parameter; raises if it is missing."""
    value = values.get(name, default)
    if value is None:
        raise UsageError(f"{name} is missing.", reason="missing-parameter")
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text, not {value!r}.")
    return value


def number_of(values: dict[str, Any], name: str) -> float | None:
    """A number in the address, or None."""
    text = values.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{name}={text!r} is not a number.", reason="not-a-number")
    return value


async def received(request: Request, most: int, remedy: str = "") -> bytes:
    """What was sent, at most so many bytes."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise UsageError(f"What was sent is larger than {most >> 20} MiB{remedy}.", reason="too-large")
        parts.append(part)
    return b"".join(parts)


async def body(request: Request) -> dict[str, Any]:
    """The JSON object that was sent."""
    try:
        document = json.loads(await received(request, LARGEST_BODY) or b"{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The request is not valid JSON ({error}).") from None
    if not isinstance(document, dict):
        raise UsageError("The request must be a JSON object.")
    return document


def error_reply(error: BaseException) -> Response:
    """The error message, as on the command line."""
    if isinstance(error, NotFound):
        return reply({"error": str(error)}, 404)
    if isinstance(error, GlassformerError):
        return reply({"error": str(error)}, 400 if error.exit_code == 2 else 409)
    return reply({"error": f"Unexpected {type(error).__name__}: {error} (a bug in Glassformer)."}, 500)


def answered(handler: Handler) -> Handler:
    """Wraps a handler so that its errors become replies; inside the guard, so that these carry its headers, too."""

    async def safe(request: Request) -> Response:
        try:
            return await handler(request)
        except HTTPException:
            raise
        except asyncio.CancelledError:  # the server is stopped while a job runs: no traceback after Ctrl-C
            return reply({"error": "The server was stopped."}, 503)
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            return error_reply(error)

    return safe
