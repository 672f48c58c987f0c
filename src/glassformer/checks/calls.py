"""State between calls: no logit depends on an earlier call. Compares a row before and after other rows were processed.

In evaluation mode. In training mode batch statistics may be kept.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from glassformer.checks.check_report import Finding
from glassformer.checks.locate import Region, locate
from glassformer.checks.passes import Passes, Setting, differing, largest
from glassformer.checks.probes import Probes
from glassformer.checks.subject import can_run

SETTINGS = (Setting(), Setting(precision="as trained"))
ROWS = 2


def state_between_calls(passes: Passes, probes: Probes) -> Finding | None:
    """The first pass that differs after another call, or None."""
    full = passes.subject.context if not probes.heavy else min(64, passes.subject.context)
    short = min(5, full)
    lengths = [(short, short), (short, full), (full, short)] if full > short else [(short, short)]
    for length, between in lengths:
        if any(not can_run(passes.subject, probes.rows(1, n)) for n in (length, between)):
            continue
        ids_BT, other_BT = probes.rows(ROWS, length), probes.rows(ROWS, between)
        for setting in SETTINGS:
            for earlier in (ids_BT, other_BT):
                found = _alone_and_after(passes, setting, ids_BT, earlier)
                if found is not None:
                    return found
    return None


def _alone_and_after(passes: Passes, setting: Setting, ids_BT: Tensor, earlier_BT: Tensor) -> Finding | None:
    """The rows on their own, and after a call with ``earlier_BT``."""
    fresh = passes.scores(setting, ids_BT)

    def after_another() -> Tensor:
        passes.forward(setting, earlier_BT)
        passes.reseed()
        return passes.forward(setting, ids_BT)

    change_BT = differing(fresh, passes.run(setting, after_another))
    if float(change_BT.max()) <= passes.allowed(setting, fresh.dtype) * largest(fresh):
        return None
    row, at = divmod(int(change_BT.argmax()), ids_BT.shape[1])
    rows, length = ids_BT.shape
    region = Region(rows, length, row, 0, length)
    place = locate(passes, setting, partial(passes.forward, setting, ids_BT), after_another, region, region, only_last=True)
    example = {"rows": ids_BT.tolist(), "read_before": earlier_BT.tolist(), "row": row, **passes.describe(setting)}
    return Finding("state", place, 0, at, float(change_BT[row, at]), example)
