"""Where FlexAttention would pay: window, soft-cap and documents compiled, by our fused path, by the equations.

    python bench/flex_attention.py               # on a GPU: milliseconds of a forward and backward pass in bf16
                                                 # without one: of a forward pass in float32, one thread (there is no backward)
    python bench/flex_attention.py --check-only  # anywhere: that FlexAttention (not compiled) computes what our reference does

Our paths are those of model/softmax_mixer.py: a window or documents are a mask for scaled_dot_product_attention; a soft-cap has
no fused form there and runs the equations.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.dot import Dot, DotConfig

HEADS, WIDTH, CAP = 8, 64, 50.0
CASES = ("window", "documents", "softcap", "window and softcap")
COMPILING = 120.0
"""Seconds that a process waits until all have compiled."""
TOGETHER: dict[str, Any] = {}


def documents_of(rows: int, length: int, device: str) -> Tensor:
    """Four documents of equal length in each row."""
    return (torch.arange(length, device=device) // (length // 4)).expand(rows, length)


def our_path(case: str, length: int, *, fused: bool) -> tuple[Dot, AttentionContext]:
    dims = Dims(width=HEADS * WIDTH, heads=HEADS, layers=1, context=length, vocabulary=2)
    mixer = DotConfig(scores={"kind": "softcap", "cap": CAP} if "softcap" in case else "none", fused=fused).build(dims)
    return mixer, AttentionContext(causal=True).within(length // 8 if "window" in case else None)


def flex_path(case: str, rows: int, length: int, device: str) -> tuple[Callable[..., Tensor] | None, BlockMask]:
    documents_BS = documents_of(rows, length, device)

    def visible(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = key <= query
        if "window" in case:
            seen = seen & (query - key < length // 8)
        if case == "documents":
            seen = seen & (documents_BS[row, query] == documents_BS[row, key])
        return seen

    def capped(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return CAP * torch.tanh(score / CAP)

    mask = create_block_mask(visible, rows, None, length, length, device=device)
    return (capped if "softcap" in case else None), mask


def tensors(rows: int, length: int, device: str, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = (torch.randn(rows, HEADS, length, WIDTH, generator=generator) for _ in range(3))
    return [one.to(device, dtype).requires_grad_() for one in made]


def computed(case: str, path: str, q: Tensor, k: Tensor, v: Tensor, flex: Callable[..., Tensor]) -> Callable[[], Tensor]:
    rows, _, length, _ = q.shape
    if path == "flex":
        score, mask = flex_path(case, rows, length, str(q.device))
        return lambda: flex(q, k, v, score_mod=score, block_mask=mask)
    mixer, context = our_path(case, length, fused=path == "fused")
    if case == "documents":
        context = AttentionContext(causal=True, document_ids_BS=documents_of(rows, length, str(q.device)))
    return lambda: mixer.attend(q, k, v, context, None)


def milliseconds(run: Callable[[], Tensor], inputs: list[Tensor], repeats: int = 20) -> float:
    def once() -> None:
        for tensor in inputs:
            tensor.grad = None
        run().sum().backward()

    for _ in range(3):
        once()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        once()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats * 1e3


def measured(case: str, length: int, rows: int) -> str:
    """A row of the table, in a process of its own: all compile at the same time; then one at a time is timed."""
    torch._inductor.config.compile_threads = 1  # the other processors compile the other rows
    inputs = tensors(rows, length, "cuda", torch.bfloat16)
    compiled = torch.compile(flex_attention, dynamic=False)
    paths = ("equations", "flex") if "softcap" in case else ("equations", "fused", "flex")
    runs = {path: computed(case, path, *inputs, compiled) for path in paths}
    began = time.perf_counter()
    runs["flex"]().sum().backward()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    TOGETHER["compiled"].wait(COMPILING)
    with TOGETHER["timing"]:
        times = {path: milliseconds(run, inputs) for path, run in runs.items()}
    shown = " | ".join(f"{times[path]:.2f}" if path in times else "-" for path in ("equations", "fused", "flex"))
    return f"| {case} | {length} | {shown} | {seconds:.0f} |"


def on_the_processor(case: str, length: int) -> str:
    """A row of the table, of a forward pass: FlexAttention has no backward pass on a processor."""
    torch.set_num_threads(1)
    inputs = [tensor.detach() for tensor in tensors(1, length, "cpu", torch.float32)]
    paths = ("equations", "flex") if "softcap" in case else ("equations", "fused", "flex")
    runs = {path: computed(case, path, *inputs, torch.compile(flex_attention, dynamic=False)) for path in paths}
    times: dict[str, float] = {}
    with torch.no_grad():
        began = time.perf_counter()  # a compiler of C++ works in a process of its own
        runs["flex"]()
        seconds = time.perf_counter() - began
        for path, run in runs.items():
            turns = []
            for _ in range(5):
                began = time.process_time()
                run()
                turns.append(time.process_time() - began)
            times[path] = min(turns) * 1e3
    shown = " | ".join(f"{times[path]:.1f}" if path in times else "-" for path in ("equations", "fused", "flex"))
    return f"| {case} | {length} | {shown} | {seconds:.0f} |"


def share(together: dict[str, Any]) -> None:
    TOGETHER.update(together)


def check(device: str) -> None:
    for case in CASES:
        q, k, v = (tensor.detach() for tensor in tensors(2, 128, device, torch.float32))
        with torch.no_grad():
            reference, flex = (computed(case, path, q, k, v, flex_attention)() for path in ("equations", "flex"))
        print(f"{case}: largest difference {float((reference - flex).abs().max()):.1g}")
        torch.testing.assert_close(flex, reference, atol=1e-4, rtol=1e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check-only", action="store_true")
    only = parser.parse_args().check_only
    warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
    check("cuda" if torch.cuda.is_available() and not only else "cpu")
    if only:
        return
    print("| case | length | equations, ms | fused, ms | flex, ms | compiling flex, s |\n|---|---|---|---|---|---|")
    if not torch.cuda.is_available():
        for case in CASES:
            print(on_the_processor(case, 2048), flush=True)
        return
    spawn, rows = (
        multiprocessing.get_context("spawn"),
        [(case, *size) for case in CASES for size in ((4096, 4), (1024, 16), (256, 64))],
    )
    together = {"compiled": spawn.Barrier(len(rows)), "timing": spawn.Lock()}
    with ProcessPoolExecutor(len(rows), spawn, share, (together,)) as pool:
        for row in as_completed([pool.submit(measured, *one) for one in rows]):
            print(row.result(), flush=True)


if __name__ == "__main__":
    main()
