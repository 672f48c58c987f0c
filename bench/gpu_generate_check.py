"""Generation on a GPU: the same tokens by CUDA graphs, by plain steps and by the reference; then tokens per second.

    python bench/gpu_generate_check.py [--device cuda] [--out RESULT.json]

The model has nanoGPT's small sizes (6 layers, 6 heads, width 384, 65 characters, context 256), its weights doubled so
that the next token depends on the sequence. In float32 the tokens of all three ways must be equal, for sequences that end
before and after the context is full. In bf16, where only a tolerance is promised, the scores of the next token with a KV
cache, by the forward pass and by the fast step, must agree with those without within 5 % of the largest score; and fast
steps by CUDA graphs must give the tokens of plain ones. Ends with 1 when one of these fails.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from glassformer.benchmark.measure import describe, spread, synchronize
from glassformer.benchmark.speed import Sizes
from glassformer.benchmark.table import shown
from glassformer.foundation.files import write_json
from glassformer.foundation.runtime import choose_runtime
from glassformer.generation import batch
from glassformer.generation import generate as front_door
from glassformer.generation.cuda import decoder
from glassformer.generation.generate import generate
from glassformer.model.transformer import Transformer, build_model

TOLERANCE_BF16 = 0.05
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 1.0},
    "filtered": {"temperature": 0.8, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.1},
}


def make_model(sizes: Sizes, device: torch.device) -> Transformer:
    model = build_model(sizes.config(), sizes.vocabulary, seed=1).to(device).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


@contextmanager
def without_graphs() -> Iterator[None]:
    """The plain path of generation/batch.py."""
    original, front_door.can_capture = front_door.can_capture, lambda model: False
    try:
        yield
    finally:
        front_door.can_capture = original


def count_recomputed(model: Transformer, prompts: list[list[int]], new: int, settings: dict[str, Any]) -> int:
    """How many tokens were close calls, made by the reference implementation."""
    asked, original = [0], decoder.next_scores

    def counted(*arguments: Any) -> Any:
        asked[0] += 1
        return original(*arguments)

    decoder.next_scores = batch.next_scores = counted
    try:
        generate(model, prompts, max_new_tokens=new, **settings)
    finally:
        decoder.next_scores = batch.next_scores = original
    return asked[0]


def check_equality(model: Transformer, *, rows: int, longest: int, new: int) -> dict[str, Any]:
    """Whether the three ways give the same tokens, for each kind of choice."""
    chance, vocabulary = random.Random(1), model.dims.vocabulary
    prompts = [[chance.randrange(vocabulary) for _ in range(chance.randint(1, longest))] for _ in range(rows)]
    results = {}
    for name, settings in SETTINGS.items():
        expected = generate(model, prompts, max_new_tokens=new, use_cache=False, **settings)
        graphs = generate(model, prompts, max_new_tokens=new, **settings)
        with without_graphs():
            plain = generate(model, prompts, max_new_tokens=new, **settings)
        results[name] = {
            "graphs_equal_reference": graphs == expected,
            "plain_equals_reference": plain == expected,
            "recomputed": count_recomputed(model, prompts, new, settings),
            "tokens": rows * new,
        }
    return results


@torch.inference_mode()
def largest_difference(model: Transformer, *, rows: int, length: int, fast: bool = False) -> float:
    """Scores step by step with a KV cache, against the whole sequence at once; relative to the largest score."""
    device = model.embedding.weight.device
    if fast:  # needs Triton, which builds of torch for CPUs lack
        from glassformer.generation.cuda.fast_step import compute_scores
    ids_BT = torch.randint(model.dims.vocabulary, (rows, length), generator=torch.Generator().manual_seed(0)).to(device)
    whole_BTV = model(ids_BT).float()
    cache = model.new_cache(capacity=length, rows=rows)
    worst = 0.0
    for place in range(length):
        position_ids_B1 = torch.full((rows, 1), place, device=device)
        cache.place(position_ids_B1, length)
        if fast:
            step_BV = torch.empty(rows, model.dims.vocabulary, device=device)
            compute_scores(model, ids_BT[:, place], position_ids_B1[:, 0], cache, step_BV)
        else:
            step_BV = model(ids_BT[:, place : place + 1], position_ids_BT=position_ids_B1, cache=cache)[:, -1].float()
        difference = (step_BV - whole_BTV[:, place]).abs().amax() / whole_BTV[:, place].abs().amax()
        worst = max(worst, float(difference))
    return worst


def check_fast_graphs(model: Transformer, *, rows: int, new: int) -> bool:
    """Whether a CUDA graph, in which kernels are set up while others still run, gives the tokens of the same kernels launched
    one after the other, with a wait after each step."""
    from glassformer.generation.cuda import kernels

    expected = generate(model, [[1]] * rows, max_new_tokens=new, batch_size=rows)
    graphs, options = decoder.CUDAGraphSteps, kernels._launch_options

    class OneByOne:
        def __init__(self, step: Any, state: Any, together: int) -> None:
            self.step = step

        def __call__(self, rows: int, length: int, steps: int) -> None:
            for _ in range(steps):
                self.step()(rows, length)
                torch.cuda.synchronize()

    decoder.CUDAGraphSteps = OneByOne
    kernels._launch_options = lambda: {"PDL": False}
    try:
        plain = generate(copy.deepcopy(model), [[1]] * rows, max_new_tokens=new, batch_size=rows)
    finally:
        decoder.CUDAGraphSteps, kernels._launch_options = graphs, options
    return plain == expected


def measure(model: Transformer, *, rows: int, new: int, rounds: int) -> dict[str, Any]:
    """Tokens per second from prompts of one token."""
    device, rates = model.embedding.weight.device, []
    for turn in range(rounds + 1):
        synchronize(device)
        began = time.perf_counter()
        generate(model, [[1]] * rows, max_new_tokens=new, batch_size=rows, seeds=range(turn * rows, (turn + 1) * rows))
        synchronize(device)
        rates.append(rows * new / (time.perf_counter() - began))
    return spread(rates[1:])  # the first one loads kernels


def run(sizes: Sizes, device: str, *, rows: int, new: int, batches: tuple[int, ...], rounds: int, bf16: bool) -> dict[str, Any]:
    runtime = choose_runtime(device=device, precision="float32")
    model = make_model(sizes, runtime.device)
    result: dict[str, Any] = {"machine": describe(runtime), "settings": vars(sizes)}
    result["equality"] = check_equality(model, rows=rows, longest=sizes.context - new // 2, new=new)
    models = {"float32": model} | ({"bf16": copy.deepcopy(model).to(torch.bfloat16)} if bf16 else {})
    result["difference"] = {name: largest_difference(one, rows=4, length=sizes.context) for name, one in models.items()}
    if bf16:
        for few_or_many in (5, 256):  # kernels come in two forms
            fast = largest_difference(models["bf16"], rows=few_or_many, length=sizes.context, fast=True)
            result["difference"][f"bf16, fast step, {few_or_many} rows"] = fast
        equal = [check_fast_graphs(models["bf16"], rows=rows, new=2 * sizes.context) for rows in (5, 256)]
        result["fast_graphs_equal_plain"] = all(equal)
    result["tokens_per_second"] = {
        f"{name}, batch {batch}, {length} new": measure(one, rows=batch, new=length, rounds=rounds)
        for name, one in models.items()
        for batch in batches
        for length in (sizes.context - 1, 2 * sizes.context)
        if rounds > 0
    }
    return result


def verdict(result: dict[str, Any]) -> bool:
    equal = all(found["graphs_equal_reference"] and found["plain_equals_reference"] for found in result["equality"].values())
    close = all(value <= TOLERANCE_BF16 for name, value in result["difference"].items() if name.startswith("bf16"))
    return equal and close and result.get("fast_graphs_equal_plain", True)


def print_result(result: dict[str, Any]) -> None:
    for name, found in result["equality"].items():
        print(f"{name}: {found}")
    for name, difference in result["difference"].items():
        print(f"largest difference of scores, {name}: {difference:.1e} of the largest score")
    for name, rate in result["tokens_per_second"].items():
        print(f"{name}: {shown(rate)} tokens/s")
    if "fast_graphs_equal_plain" in result:
        print(f"fast steps by CUDA graphs give the tokens of plain ones: {result['fast_graphs_equal_plain']}")
    print("passed" if verdict(result) else "FAILED")


def main() -> int:
    parser = argparse.ArgumentParser(description="Equality and speed of generation on a GPU.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=24, help="sequences compared with the reference")
    parser.add_argument("--rounds", type=int, default=3, help="0: no speed")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    on_cuda = arguments.device.startswith("cuda")
    result = run(
        Sizes(), arguments.device, rows=arguments.rows, new=100, batches=(1, 256), rounds=arguments.rounds, bf16=on_cuda
    )
    if arguments.out is not None:
        write_json(arguments.out, result)
    print_result(result)
    return 0 if verdict(result) else 1


if __name__ == "__main__":
    sys.exit(main())
