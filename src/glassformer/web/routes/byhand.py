"""By hand: keys, values and queries in the plane -> weights and outputs; a goal -> reachable or why not."""

from __future__ import annotations

from typing import Any

from glassformer.foundation.errors import UsageError
from glassformer.web.app_state import AppState, json_route
from glassformer.web.page_json import picture_address


def catalogue(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """What ``glassformer byhand --json`` lists."""
    from glassformer.byhand.request import catalogue

    return catalogue()


def plane(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """For each query (one per head): scores, softmax weights, output, and the argmax output; and the mean over heads."""
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


def solve(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The answer of ``glassformer byhand``: its JSON, its text, its picture."""
    from glassformer.byhand.problem import is_file_name
    from glassformer.byhand.request import answer

    for name in ("keys", "values", "query", "logits"):
        text = values.get(name)
        if isinstance(text, str) and text != "worked" and (":" in text or "/" in text or is_file_name(text)):
            raise UsageError(f"{name}={text!r}: the page reads no files; give rows of numbers.")
    result = answer(values)
    picture = picture_address(result.figure())
    return {"title": result.title, "text": result.text, "result": result.to_dict(), "picture": picture}


ROUTES = [
    json_route("GET", "/api/byhand", catalogue, worker=True),
    json_route("POST", "/api/byhand/plane", plane, worker=True),
    json_route("POST", "/api/byhand/solve", solve, worker=True),
]
