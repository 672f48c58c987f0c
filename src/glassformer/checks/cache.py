"""Reading in pieces with a cache gives what reading at once gives: by steps, to the full context, rows of unequal length."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from glassformer.checks.locate import Region, locate
from glassformer.checks.passes import Passes, Setting, differing, largest
from glassformer.checks.probes import Probes
from glassformer.checks.report import Finding
from glassformer.checks.subject import Cached, runs

ROWS = 2


def cache_fault(passes: Passes, probes: Probes) -> Finding | None:
    """The first piece whose scores differ, or None. Asks for ``subject.new_cache``."""
    full = passes.subject.context
    short = min(7, full)
    pieces = [[1] * short, [max(1, full - 3)] + [1] * min(3, full - 1)]
    if full > 6 and not probes.heavy:
        pieces.append([full // 2, 1, full - full // 2 - 1])  # a piece in the middle of a row, of more than one token
    for sizes in pieces[:1] if probes.brief else pieces:  # a last step that acts at each place alone keeps nothing
        if runs(passes.subject, probes.rows(1, sum(sizes))) is None:
            continue
        found = _in_pieces(passes, probes, sizes)
        if found is not None:
            return found
    return _unequal_rows(passes, probes) if passes.subject.ragged and not probes.brief else None


def _in_pieces(passes: Passes, probes: Probes, sizes: list[int]) -> Finding | None:
    setting, ids_BT = Setting(), probes.rows(ROWS, sum(sizes))
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    whole = passes.scores(setting, ids_BT)
    floor = passes.allowed(setting, whole.dtype, same_shape=False) * largest(whole)

    def pieces() -> list[Tensor]:
        cache = _cache(passes)
        return [cache.read(ids_BT[:, start : start + size]) for start, size in zip(starts, sizes)]

    read = passes.run(setting, lambda: torch.cat(pieces(), dim=1))
    change_BT = differing(whole, read)
    if float(change_BT.max()) <= floor:
        return None
    first_T = change_BT.amax(0)
    at = int((first_T > floor).nonzero()[0])
    piece = max(i for i, start in enumerate(starts) if start <= at)
    start, size = starts[piece], sizes[piece]
    row = int(change_BT[:, at].argmax())
    regions = Region(ROWS, sum(sizes), row, start, start + size), Region(ROWS, size, row, 0, size)
    calls = partial(passes.subject.scores, ids_BT), _last_piece(passes, ids_BT, starts[: piece + 1], sizes[: piece + 1])
    place = locate(passes, setting, *calls, *regions, same_shape=False, only_last=True)
    example = {"tokens": ids_BT[row].tolist(), "pieces": sizes, **passes.said(setting)}
    return Finding("cache", place, start, at, float(change_BT[row, at]), example)


def _last_piece(passes: Passes, ids_BT: Tensor, starts: list[int], sizes: list[int]) -> Callable[[], Tensor]:
    """Reads all pieces and gives the scores of the last."""

    def call() -> Tensor:
        cache = _cache(passes)
        for start, size in zip(starts, sizes):
            scores = cache.read(ids_BT[:, start : start + size])
        return scores

    return call


def _unequal_rows(passes: Passes, probes: Probes) -> Finding | None:
    """Rows of unequal length read together, then two more tokens each, against each row alone and at once."""
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
        if float(change_T.max()) > passes.allowed(setting, whole.dtype, same_shape=False) * largest(whole):
            at = int(change_T.argmax())
            regions = Region(1, length + more, 0, length + more - 1, length + more), Region(len(ids), 1, row, 0, 1)
            place = locate(
                passes, setting, partial(passes.subject.scores, ids[row]), call, *regions, same_shape=False, only_last=True
            )
            example = {"rows": [one[0].tolist() for one in ids], "read_first": lengths, "row": row, **passes.said(setting)}
            return Finding("cache", place, length, length + at, float(change_T[at]), example)
    return None


def _cache(passes: Passes) -> Cached:
    assert passes.subject.new_cache is not None
    return passes.subject.new_cache()
