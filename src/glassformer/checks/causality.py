"""Causality: no logit depends on a later token. Tested by perturbed inputs, by gradients and by truncated rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from glassformer.checks.check_report import Finding
from glassformer.checks.locate import Region, locate
from glassformer.checks.passes import Passes, Setting, differing, largest
from glassformer.checks.probes import Probes
from glassformer.checks.subject import can_run

TRAINED = Setting(precision="as trained")
MANY = 33
"""Size of a large batch, for code paths that only large batches take."""
FEW = 4
"""Number of cuts in settings that differ from the main ones only in the code path."""


@dataclass(frozen=True)
class _Suspect:
    """A suspected leak: row ``row``, and the same with tokens replaced from ``cut`` on, in an unchanged batch (or alone)."""

    setting: Setting
    ids_BT: Tensor
    changed_BT: Tensor
    cut: int
    way: str = "changed inputs"
    row: int = 0

    @property
    def ids(self) -> Tensor:
        """The row's own tokens, [T]."""
        return self.ids_BT[self.row]

    @property
    def changed_places(self) -> list[int]:
        places: list[int] = (self.ids != self.changed_BT[self.row]).nonzero().flatten().tolist()
        return places


@dataclass
class Coverage:
    """How much was tested, for the report."""

    lengths: set[int]
    comparisons: int = 0
    gradients: int = 0

    def __str__(self) -> str:
        lengths = f"{len(self.lengths)} lengths up to {max(self.lengths)}" if self.lengths else "no length"
        by_gradients = f" and {self.gradients} gradients" if self.gradients else ""
        return f"{self.comparisons} changed futures{by_gradients}, {lengths}, float64 and as trained, training and evaluation"


def future_leak(passes: Passes, probes: Probes, coverage: Coverage) -> Finding | None:
    """The first leak, with a minimal example, or None."""
    for setting, length, cuts in _plan(passes, probes):
        suspect = _check_perturbed(passes, probes, setting, length, cuts)
        coverage.lengths.add(length)
        coverage.comparisons += len(cuts)
        if suspect is not None:
            return _finding(passes, probes, suspect)
    for setting in (Setting(), Setting(mode="training")):
        suspect = _check_gradients(passes, probes, setting, coverage)
        if suspect is not None:
            return _finding(passes, probes, suspect)
    return _check_prefixes(passes, probes)


def _plan(passes: Passes, probes: Probes) -> Iterator[tuple[Setting, int, list[int]]]:
    """Settings, lengths and cuts to test, the cheap ones first."""
    subject, full = passes.subject, passes.subject.context
    training = Setting(mode="training")
    works = [length for length in probes.short_lengths() if can_run(subject, probes.rows(1, length))]
    for length in works:
        yield Setting(), length, probes.cuts(length)
        if length in (3, 8):
            yield training, length, probes.cuts(length)
            yield replace(training, precision="as trained"), length, probes.cuts(length)
            yield Setting(precision="as trained", graded=True), length, probes.cuts(length)
            yield Setting(), length, [1 + i % (length - 1) for i in range(MANY)]
    if probes.brief:
        yield Setting(), full, sorted({1, full - 1})
        yield replace(training, precision="as trained"), full, [full - 1]
        return
    few = probes.cuts(full, wanted=FEW)
    some = probes.cuts(full, wanted=2 * FEW)
    yield Setting(), full, probes.cuts(full)
    yield training, full, few if probes.heavy else some
    yield replace(training, precision="as trained"), full, some
    yield TRAINED, full, some
    if subject.taps():
        yield Setting(looked_at=True), full, few
    if subject.paddings:
        yield Setting(masked=True), full, few
        yield replace(TRAINED, masked=True), full, few
    if passes.has_closed_gates:
        yield Setting(randomised=True), full, few
        yield Setting(mode="training", randomised=True), min(full, 8), probes.cuts(min(full, 8))
    for length in probes.long_lengths():
        if can_run(subject, probes.rows(1, length)):
            yield Setting(), length, [length - 1] if probes.heavy else probes.cuts(length, wanted=FEW)


def _check_perturbed(passes: Passes, probes: Probes, setting: Setting, length: int, cuts: list[int]) -> _Suspect | None:
    """Each cut in a row of its own. A suspected leak is confirmed on the row alone, or with the other rows unchanged, since
    another row could have caused it."""
    at_once = probes.rows_at_once(length)
    for start in range(0, len(cuts), at_once):
        cut_B = torch.tensor(cuts[start : start + at_once])
        ids_BT = probes.rows(len(cut_B), length)
        changed_BT = probes.changed_from(ids_BT, cut_B)
        before_BT = _changes_before_cuts(passes, setting, ids_BT, changed_BT, cut_B)
        suspicious = [row for row in before_BT.amax(1).argsort(descending=True).tolist() if before_BT[row].max() > 0][:3]
        for row in suspicious:
            alone = _Suspect(setting, ids_BT[row : row + 1], changed_BT[row : row + 1], int(cut_B[row]))
            only_this_BT = torch.where((torch.arange(len(cut_B)) == row).unsqueeze(1).to(ids_BT.device), changed_BT, ids_BT)
            among = _Suspect(setting, ids_BT, only_this_BT, int(cut_B[row]), row=row)
            for suspect in (alone, among):
                if _changes(passes, suspect).any():
                    return suspect
    return None


def _changes_before_cuts(passes: Passes, setting: Setting, ids_BT: Tensor, changed_BT: Tensor, cut_B: Tensor) -> Tensor:
    """The change of the logits before each row's cut, [B, T]; zero within rounding error."""
    first, second = passes.scores(setting, ids_BT), passes.scores(setting, changed_BT)
    earliest = int(cut_B.max())  # positions after every cut need not be compared
    change_BT = differing(first[:, :earliest], second[:, :earliest]).cpu()
    change_BT = change_BT.masked_fill(torch.arange(earliest) >= cut_B.unsqueeze(1), 0.0)
    if not change_BT.any():
        return change_BT
    return change_BT.masked_fill(change_BT <= passes.allowed(setting, first.dtype) * largest(first), 0.0)


def _changes(passes: Passes, suspect: _Suspect) -> Tensor:
    """The change of the row's logits before its cut, [T]."""
    cut_B = torch.full((len(suspect.ids_BT),), suspect.cut)
    return _changes_before_cuts(passes, suspect.setting, suspect.ids_BT, suspect.changed_BT, cut_B)[suspect.row]


def _check_gradients(passes: Passes, probes: Probes, setting: Setting, coverage: Coverage) -> _Suspect | None:
    """The gradient of some positions' logits with respect to every later token's vector: nonzero is a leak."""
    length = passes.subject.context
    if probes.heavy and (probes.brief or setting.mode == "training"):
        length = min(length, 128)  # at full length perturbed inputs suffice
    places = [cut - 1 for cut in probes.cuts(length, wanted=1 if probes.heavy else 2 * FEW)]
    at_once = max(1, probes.rows_at_once(length) // 4)
    for start in range(0, len(places), at_once):
        at_B = torch.tensor(places[start : start + at_once])
        ids_BT, rows = probes.rows(len(at_B), length), torch.arange(len(at_B))
        weight = torch.randn(1 << 17, generator=probes.generator, dtype=torch.float64).to(ids_BT.device)

        def at_the_places(scores: Tensor, at_B: Tensor = at_B, rows: Tensor = rows, weight: Tensor = weight) -> Tensor:
            chosen_BV = scores[rows.to(scores.device), at_B.to(scores.device)]
            return (chosen_BV * weight[: chosen_BV.shape[-1]]).sum()

        sizes_BT = passes.gradients(setting, ids_BT, at_the_places)
        if sizes_BT is None or sizes_BT.shape != ids_BT.shape:
            return None
        coverage.gradients += len(at_B)
        later_BT = torch.arange(length) > at_B.unsqueeze(1)
        leaks_BT = sizes_BT.cpu().masked_fill(~later_BT, 0.0)
        floor = passes.allowed(setting, torch.float64) * largest(sizes_BT)
        for row in leaks_BT.amax(1).argsort(descending=True).tolist()[:3]:
            if leaks_BT[row].max() > floor:
                suspect = _confirm_gradient(passes, probes, setting, ids_BT[row : row + 1], int(at_B[row]) + 1)
                if suspect is not None:
                    return suspect
    return None


def _confirm_gradient(passes: Passes, probes: Probes, setting: Setting, ids_1T: Tensor, cut: int) -> _Suspect | None:
    """Confirms a nonzero gradient on the row alone by perturbed inputs, without and with gradients on."""
    for confirming in (setting, replace(setting, graded=True)):
        for _ in range(4):
            suspect = _Suspect(confirming, ids_1T, probes.changed_from(ids_1T, torch.tensor([cut])), cut, way="gradients")
            if _changes(passes, suspect).any():
                return suspect
    return None


def _check_prefixes(passes: Passes, probes: Probes) -> Finding | None:
    """Compares the prefix of a row alone with the same prefix followed by more tokens."""
    full, setting = passes.subject.context, Setting()
    for length in sorted({2} if probes.brief else {2, full // 2, full - 1} & set(range(1, full))):
        whole_1T = probes.rows(1, full)
        start_1T = whole_1T[:, :length]
        if not can_run(passes.subject, start_1T):
            continue
        alone, followed = passes.scores(setting, start_1T), passes.scores(setting, whole_1T)
        change_T = differing(alone, followed[:, :length])[0]
        calls = partial(passes.forward, setting, start_1T), partial(passes.forward, setting, whole_1T)
        if passes.beyond_rounding(setting, change_T, alone, calls[1]):
            at, regions = int(change_T.argmax()), (Region(1, length, 0, 0, length), Region(1, full, 0, 0, length))
            place = locate(passes, setting, *calls, *regions, same_shape=False)
            example = {"tokens": start_1T[0].tolist(), "followed_by": whole_1T[0, length:].tolist(), "found_by": "length"}
            return Finding("causality", place, length, at, float(change_T[at]), {**example, **passes.describe(setting)})
    return None


def _finding(passes: Passes, probes: Probes, suspect: _Suspect) -> Finding:
    """The shortest row that shows the leak, one perturbed token, and the module where it enters."""
    small = _single_token(passes, _shortest(passes, probes, suspect))
    change_T = _changes(passes, small)
    to_position = int(change_T.argmax())
    source = small.changed_places[0]
    rows, length = small.ids_BT.shape
    region = Region(rows, length, small.row, 0, small.cut)
    calls = partial(passes.forward, small.setting, small.ids_BT), partial(passes.forward, small.setting, small.changed_BT)
    place = locate(passes, small.setting, *calls, region, region)
    changed = small.changed_BT[small.row].tolist()
    example: dict[str, Any] = {"tokens": small.ids.tolist(), "changed": changed, "found_by": suspect.way}
    if len(small.ids_BT) > 1:
        example["among_rows"] = len(small.ids_BT)
    size = float(change_T[to_position])
    return Finding("causality", place, source, to_position, size, {**example, **passes.describe(small.setting)})


def _shortest(passes: Passes, probes: Probes, suspect: _Suspect) -> _Suspect:
    """The first of some shorter lengths that leaks in the same setting."""
    length = suspect.ids_BT.shape[1]
    if len(suspect.ids_BT) > 1:
        return suspect
    ladder = [*range(2, 9), 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 2048]
    for shorter in (n for n in ladder if n < length):
        if not can_run(passes.subject, suspect.ids_BT[:, :shorter]):
            continue
        cuts = sorted({shorter - 1, 1, shorter // 2} & set(range(1, shorter)))
        found = _check_perturbed(passes, probes, suspect.setting, shorter, cuts)
        if found is not None:
            return replace(found, way=suspect.way)
    return suspect


def _single_token(passes: Passes, suspect: _Suspect) -> _Suspect:
    """One perturbed token: the one with the largest gradient at the leaking position, else one found by bisection."""
    to_position = int(_changes(passes, suspect).argmax())
    row = suspect.row
    sizes_BT = passes.gradients(suspect.setting, suspect.ids_BT, lambda scores: scores[row, to_position].square().sum())
    attempts = []
    if sizes_BT is not None and sizes_BT.shape == suspect.ids_BT.shape:
        ranked = (sizes_BT[row, suspect.cut :].argsort(descending=True) + suspect.cut).tolist()
        attempts = [_perturb_only(suspect, [source]) for source in ranked[:3]]
    leaks = [(float(_changes(passes, attempt).max()), -i) for i, attempt in enumerate(attempts)]
    if leaks and max(leaks)[0] > 0:
        return attempts[-max(leaks)[1]]
    return _bisect(passes, suspect)


def _perturb_only(suspect: _Suspect, places: list[int]) -> _Suspect:
    """Only these positions perturbed."""
    changed_BT = suspect.ids_BT.clone()
    changed_BT[suspect.row, places] = suspect.changed_BT[suspect.row, places]
    return replace(suspect, changed_BT=changed_BT, cut=min(places))


def _bisect(passes: Passes, suspect: _Suspect) -> _Suspect:
    """Fewer perturbed tokens, by bisection."""
    current = suspect
    changed = current.changed_places
    while len(changed) > 1:
        for half in (changed[: len(changed) // 2], changed[len(changed) // 2 :]):
            attempt = _perturb_only(current, half)
            if _changes(passes, attempt).any():
                current, changed = attempt, half
                break
        else:
            return current  # only several perturbed tokens together show it
    return current
