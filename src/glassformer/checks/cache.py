"""KV cache: incremental decoding gives the logits of one full pass; token by token, in chunks, rows of unequal length."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from glassformer.checks.check_report import Finding
from glassformer.checks.law_results import short_error
from glassformer.checks.locate import Region, locate
from glassformer.checks.passes import Passes, Setting, differing, largest
from glassformer.checks.probes import Probes
from glassformer.checks.subject import Cached, can_run

ROWS = (2, 1)


def cache_fault(passes: Passes, probes: Probes) -> Finding | None:
    """The first chunk whose logits differ, or None. Needs ``subject.new_cache``."""
    for sizes in _chunk_sizes(passes, probes):
        if not can_run(passes.subject, probes.rows(1, sum(sizes))):
            continue
        for rows in ROWS:
            try:
                found = _check_chunks(passes, probes, sizes, rows)
            except Exception as error:
                if all(size == 1 for size in sizes[1:]):
                    raise
                passes.subject.remarks.append(f"Several tokens at once cannot be appended to the cache: {short_error(error)}.")
                break
            if found is not None:
                return found
    return _check_unequal_rows(passes, probes) if passes.subject.ragged and not probes.brief else None


def _chunk_sizes(passes: Passes, probes: Probes) -> list[list[int]]:
    """Chunk sizes: token by token; a prefix and single steps to the full context; several tokens in the middle of a row."""
    full = passes.subject.context
    plans = [[1] * min(7, full)]
    if probes.brief:  # a head that acts on each position alone has no cache
        return plans
    plans.append([max(1, full - 3)] + [1] * min(3, full - 1))
    if full >= 7:
        plans.append([3, 3, 1])
    if full > 12 and not probes.heavy:
        plans.append([full // 2, 1, full - full // 2 - 1])
    return plans


def _check_chunks(passes: Passes, probes: Probes, sizes: list[int], rows: int) -> Finding | None:
    setting, ids_BT = Setting(), probes.rows(rows, sum(sizes))
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    whole = passes.scores(setting, ids_BT)

    def pieces() -> Tensor:
        cache = _cache(passes)
        return torch.cat([cache.read(ids_BT[:, start : start + size]) for start, size in zip(starts, sizes)], dim=1)

    change_BT = differing(whole, passes.run(setting, pieces))
    if not passes.beyond_rounding(setting, change_BT, whole, pieces):
        return None
    floor = passes.allowed(setting, whole.dtype, same_shape=False) * largest(whole)
    at = int((change_BT.amax(0) > floor).nonzero()[0])
    piece = max(i for i, start in enumerate(starts) if start <= at)
    start, size = starts[piece], sizes[piece]
    row = int(change_BT[:, at].argmax())
    regions = Region(rows, sum(sizes), row, start, start + size), Region(rows, size, row, 0, size)
    calls = partial(passes.subject.scores, ids_BT), _last_chunk(passes, ids_BT, starts[: piece + 1], sizes[: piece + 1])
    place = locate(passes, setting, *calls, *regions, same_shape=False, only_last=True)
    example = {"rows": rows, "tokens": ids_BT[row].tolist(), "pieces": sizes, **passes.describe(setting)}
    return Finding("cache", place, start, at, float(change_BT[row, at]), example)


def _last_chunk(passes: Passes, ids_BT: Tensor, starts: list[int], sizes: list[int]) -> Callable[[], Tensor]:
    """Processes all chunks and returns the logits of the last."""

    def call() -> Tensor:
        cache = _cache(passes)
        for start, size in zip(starts, sizes):
            scores = cache.read(ids_BT[:, start : start + size])
        return scores

    return call


def _check_unequal_rows(passes: Passes, probes: Probes) -> Finding | None:
    """Rows of unequal length in one batch, then two more tokens each, compared with each row alone in one pass."""
    setting, full = Setting(), passes.subject.context
    lengths, more = [max(1, full - 2 - 3), max(1, min(3, full - 2))], 2
    if full < 4:
        return None
    ids = [probes.rows(1, length + more) for length in lengths]
    padded_BT = torch.zeros(len(ids), max(lengths), dtype=torch.long, device=ids[0].device)
    for row, length in enumerate(lengths):
        padded_BT[row, :length] = ids[row][0, :length]

    def call() -> Tensor:
        cache = _cache(passes)
        cache.read(padded_BT, lengths)
        steps = [torch.cat([one[:, length + i : length + i + 1] for one, length in zip(ids, lengths)]) for i in range(more)]
        return torch.cat([cache.read(step) for step in steps], dim=1)

    read = passes.run(setting, call)
    for row, length in enumerate(lengths):
        whole = passes.scores(setting, ids[row])
        change_T = differing(whole[0, length:], read[row])
        if passes.beyond_rounding(setting, change_T, whole, call):
            at = int(change_T.argmax())
            regions = Region(1, length + more, 0, length + more - 1, length + more), Region(len(ids), 1, row, 0, 1)
            place = locate(
                passes, setting, partial(passes.subject.scores, ids[row]), call, *regions, same_shape=False, only_last=True
            )
            example = {"rows": [one[0].tolist() for one in ids], "read_first": lengths, "row": row, **passes.describe(setting)}
            return Finding("cache", place, length, length + at, float(change_T[at]), example)
    return None


def _cache(passes: Passes) -> Cached:
    assert passes.subject.new_cache is not None
    return passes.subject.new_cache()
