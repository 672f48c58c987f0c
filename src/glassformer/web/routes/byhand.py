"""By hand: keys, values and queries in the plane -> weights and outputs; a goal -> reachable or why not."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.foundation.errors import UsageError
from glassformer.web.app_state import state_of
from glassformer.web.page_json import picture_address
from glassformer.web.replies import body, reply


async def catalogue(request: Request) -> Response:
    """What ``glassformer byhand --json`` lists."""

    def read() -> dict[str, Any]:
        from glassformer.byhand.request import catalogue

        return catalogue()

    return reply(await state_of(request).worker.do(read))


async def plane(request: Request) -> Response:
    """For each query (one per head): scores, softmax weights, output, and the argmax output; and the mean over heads."""
    values = await body(request)
    return reply(await state_of(request).worker.do(lambda: attention_in_the_plane(values)))


def attention_in_the_plane(values: dict[str, Any]) -> dict[str, Any]:
    import numpy as np
    import torch

    from glassformer.byhand.explorations.argmax import argmax_pattern
    from glassformer.byhand.problem import as_matrix
    from glassformer.byhand.softmax import output_of, scores_of, weights_of

    for name in ("keys", "values", "queries"):  # file names, which the command line accepts, are refused from a browser
        if isinstance(values.get(name), str):
            raise UsageError(f"{name} must be rows of numbers.")
    keys, vectors, queries = (as_matrix(name, values.get(name)) for name in ("keys", "values", "queries"))
    if len(vectors) != len(keys):
        raise UsageError(f"values has {len(vectors)} rows and keys {len(keys)}; give one value for every key.")
    if queries.shape[1] != keys.shape[1]:
        raise UsageError("queries and keys must have rows of the same length.")
    heads = []
    for query in queries:
        scores = scores_of(query, keys)
        hard = argmax_pattern(torch.as_tensor(scores)).numpy()
        heads.append(
            {
                "scores": scores.tolist(),
                "weights": weights_of(query, keys).tolist(),
                "output": output_of(query, keys, vectors).tolist(),
                "argmax": {"weights": hard.tolist(), "output": (hard @ vectors).tolist()},
            }
        )
    both = {
        "softmax": np.mean([head["output"] for head in heads], axis=0).tolist(),
        "argmax": np.mean([head["argmax"]["output"] for head in heads], axis=0).tolist(),
    }
    return {"heads": heads, "mean": both}


async def solve(request: Request) -> Response:
    """The answer of ``glassformer byhand``: its JSON, its text, its picture."""
    from glassformer.byhand.problem import is_file_name

    values = await body(request)
    for name in ("keys", "values", "query", "logits"):
        text = values.get(name)
        if isinstance(text, str) and text != "worked" and (":" in text or "/" in text or is_file_name(text)):
            raise UsageError(f"{name}={text!r}: the page reads no files; give rows of numbers.")

    def answer() -> dict[str, Any]:
        from glassformer.byhand.request import answer

        result = answer(values)
        return {
            "title": result.title,
            "text": result.text,
            "result": result.to_dict(),
            "picture": picture_address(result.figure()),
        }

    return reply(await state_of(request).worker.do(answer))


ROUTES = [
    Route("/api/byhand", catalogue, methods=["GET"]),
    Route("/api/byhand/plane", plane, methods=["POST"]),
    Route("/api/byhand/solve", solve, methods=["POST"]),
]
