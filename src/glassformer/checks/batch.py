"""Batch independence: no logit depends on another row. Tested by perturbing other rows, by gradients, and on the row alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from glassformer.checks.check_report import Finding
from glassformer.checks.locate import Region, locate
from glassformer.checks.passes import Passes, Setting, differing, largest
from glassformer.checks.probes import Probes
from glassformer.checks.subject import can_run

ROWS = 3
MANY = 33
"""Size of a large batch, for code paths that only large batches take."""


@dataclass(frozen=True)
class _Suspect:
    """A suspected leak: rows, and the same with the rows around ``row`` perturbed."""

    setting: Setting
    ids_BT: Tensor
    changed_BT: Tensor
    row: int


def row_leak(passes: Passes, probes: Probes) -> Finding | None:
    """The first leak between rows, with its smallest example, or None."""
    training = Setting(mode="training")
    settings = [Setting(), training, replace(training, precision="as trained"), Setting(precision="as trained")]
    if passes.subject.taps():
        settings.append(Setting(looked_at=True))
    if passes.subject.paddings:
        settings.append(Setting(masked=True))
    for length in dict.fromkeys((min(5, passes.subject.context), passes.subject.context)):
        if not can_run(passes.subject, probes.rows(ROWS, length)):
            continue
        for setting in _settings_in_budget(settings, probes) if length > 5 else settings:
            for row in (1,) if length > 5 else (1, 0, ROWS - 1):  # the middle row has rows on both sides
                suspect = _perturb_other_rows(passes, probes, setting, length, row)
                if suspect is not None:
                    return _finding(passes, probes, suspect)
    return _check_gradients(passes, probes) or _check_large_batch(passes, probes) or _check_row_alone(passes, probes)


def _check_large_batch(passes: Passes, probes: Probes) -> Finding | None:
    """Short rows in a large batch, in training and evaluation mode; and such a row alone."""
    length = min(5, passes.subject.context)
    if not can_run(passes.subject, probes.rows(MANY, length)):
        return None
    for setting in (Setting(), Setting(mode="training")):
        suspect = _perturb_other_rows(passes, probes, setting, length, MANY // 2, rows=MANY)
        if suspect is not None:
            return _finding(passes, probes, suspect)
    return _alone_and_in_batch(passes, Setting(), probes.rows(MANY, length))


def _settings_in_budget(settings: list[Setting], probes: Probes) -> list[Setting]:
    """The settings for rows of full length; only the two modes where such rows are expensive."""
    return settings[:1] if probes.brief else settings[:2] if probes.heavy else settings


def _perturb_other_rows(
    passes: Passes, probes: Probes, setting: Setting, length: int, row: int, *, rows: int | None = None
) -> _Suspect | None:
    ids_BT = probes.rows(rows or (ROWS if length <= 5 or not probes.heavy else 2), length)
    changed_BT = probes.others(ids_BT)
    changed_BT[row] = ids_BT[row]
    suspect = _Suspect(setting, ids_BT, changed_BT, row)
    return suspect if _changes(passes, suspect).any() else None


def _changes(passes: Passes, suspect: _Suspect) -> Tensor:
    """The change of the row's logits, [T]; zero within rounding error."""
    first, second = passes.scores(suspect.setting, suspect.ids_BT), passes.scores(suspect.setting, suspect.changed_BT)
    change_T = differing(first[suspect.row], second[suspect.row])
    if not change_T.any():
        return change_T
    return change_T.masked_fill(change_T <= passes.allowed(suspect.setting, first.dtype) * largest(first), 0.0)


def _check_gradients(passes: Passes, probes: Probes) -> Finding | None:
    """Gradients of one row's logits with respect to other rows' token vectors, in both modes."""
    length = min(16, passes.subject.context)
    for setting in (Setting(), Setting(mode="training")):
        ids_BT = probes.rows(ROWS, length)
        sizes_BT = passes.gradients(setting, ids_BT, lambda scores: (scores[0] * scores[0].detach().cos()).sum())
        if sizes_BT is None or sizes_BT.shape != ids_BT.shape:
            return None
        if float(sizes_BT[1:].max()) > passes.allowed(setting, torch.float64) * largest(sizes_BT):
            suspect = _perturb_other_rows(passes, probes, setting, length, 0)
            for confirming in (setting, replace(setting, graded=True)):
                suspect = suspect or _perturb_other_rows(passes, probes, confirming, length, 0)
            if suspect is not None:
                return _finding(passes, probes, suspect)
    return None


def _check_row_alone(passes: Passes, probes: Probes) -> Finding | None:
    """Compares a row alone with the same row in a batch."""
    length = min(64, passes.subject.context) if probes.brief else passes.subject.context
    return _alone_and_in_batch(passes, Setting(), probes.rows(2 if probes.heavy else ROWS, length))


def _alone_and_in_batch(passes: Passes, setting: Setting, ids_BT: Tensor) -> Finding | None:
    rows, length = ids_BT.shape
    alone, among = passes.scores(setting, ids_BT[:1]), passes.scores(setting, ids_BT)
    change_T = differing(alone[0], among[0])
    calls = partial(passes.forward, setting, ids_BT[:1]), partial(passes.forward, setting, ids_BT)
    if not passes.beyond_rounding(setting, change_T, alone, calls[1]):
        return None
    at, regions = int(change_T.argmax()), (Region(1, length, 0, 0, length), Region(rows, length, 0, 0, length))
    place = locate(passes, setting, *calls, *regions, same_shape=False)
    example = {"rows": ids_BT.tolist(), "row": 0, "found_by": "the row alone", **passes.describe(setting)}
    return Finding("batch", place, 0, at, float(change_T[at]), example)


def _finding(passes: Passes, probes: Probes, suspect: _Suspect) -> Finding:
    small = _bisect_tokens(passes, _shortest(passes, probes, suspect))
    change_T = _changes(passes, small)
    to_position = int(change_T.argmax())
    other, source = (small.ids_BT != small.changed_BT).nonzero()[0].tolist()
    rows, length = small.ids_BT.shape
    region = Region(rows, length, small.row, 0, length)
    calls = partial(passes.forward, small.setting, small.ids_BT), partial(passes.forward, small.setting, small.changed_BT)
    place = locate(passes, small.setting, *calls, region, region)
    example = {"rows": small.ids_BT.tolist(), "changed": small.changed_BT.tolist(), "row": small.row, "changed_row": other}
    size = float(change_T[to_position])
    return Finding("batch", place, source, to_position, size, {**example, **passes.describe(small.setting)})


def _shortest(passes: Passes, probes: Probes, suspect: _Suspect) -> _Suspect:
    """The shortest pair of rows that shows the leak."""
    for length in (n for n in (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256, 512) if n < suspect.ids_BT.shape[1]):
        keep = [0, 1] if suspect.row == 0 else [suspect.row - 1, suspect.row]
        ids_BT, changed_BT = suspect.ids_BT[keep, :length], suspect.changed_BT[keep, :length]
        if not can_run(passes.subject, ids_BT):
            continue
        attempt = _Suspect(suspect.setting, ids_BT, changed_BT, keep.index(suspect.row))
        if _changes(passes, attempt).any():
            return attempt
    return suspect


def _bisect_tokens(passes: Passes, suspect: _Suspect) -> _Suspect:
    """Fewer perturbed tokens, by bisection."""
    current, changed = suspect, (suspect.ids_BT != suspect.changed_BT).nonzero().tolist()
    while len(changed) > 1:
        for half in (changed[: len(changed) // 2], changed[len(changed) // 2 :]):
            ids_BT = current.ids_BT.clone()
            for row, at in half:
                ids_BT[row, at] = current.changed_BT[row, at]
            attempt = replace(current, changed_BT=ids_BT)
            if _changes(passes, attempt).any():
                current, changed = attempt, half
                break
        else:
            return current
    return current
