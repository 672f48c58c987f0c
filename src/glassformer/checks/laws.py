"""The five laws, each as a function: a model's passes -> the first finding with a minimal example, or None.

- causality: no logit depends on a later token. Tested by perturbed inputs, by gradients and by truncated rows.
- batch: no logit depends on another row. Tested by perturbing other rows, by gradients, and on the row alone.
- state: no logit depends on an earlier call. A row before and after other rows were processed, in evaluation mode: in
  training mode batch statistics may be stored.
- padding: no logit depends on padding. Tested with other padding, without any, and with masked tokens anywhere if supported.
- cache: incremental decoding gives the logits of one full pass; token by token, in chunks, rows of unequal length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from glassformer.checks.check_report import Finding, Law, short_error
from glassformer.checks.forward_passes import Passes, Region, Setting, differing, largest, locate
from glassformer.checks.subject import SHORT, Cached, Padded, Probes, can_run

EVALUATION, TRAINING = Setting(), Setting(mode="training")
AS_TRAINED, TRAINING_AS_TRAINED = Setting(precision="as trained"), Setting(mode="training", precision="as trained")
MANY = 33
"""Size of a large batch, for code paths that only large batches take."""
FEW = 4
"""Number of cuts in settings that differ from the main ones only in the code path."""
ROWS = 3


@dataclass(frozen=True)
class _Suspect:
    """A suspected leak: two batches that differ in tokens that must not change row ``row`` before position ``cut``."""

    setting: Setting
    ids_BT: Tensor
    changed_BT: Tensor
    row: int
    cut: int
    way: str = "changed inputs"

    @property
    def changed_places(self) -> list[list[int]]:
        """(row, position) of every perturbed token."""
        return (self.ids_BT != self.changed_BT).nonzero().tolist()

    def only(self, places: list[list[int]]) -> _Suspect:
        """The same with only these (row, position) perturbed."""
        changed_BT = self.ids_BT.clone()
        for row, at in places:
            changed_BT[row, at] = self.changed_BT[row, at]
        return replace(self, changed_BT=changed_BT, cut=min((at for row, at in places if row == self.row), default=self.cut))

    def changes(self, passes: Passes) -> Tensor:
        """The change of the logits of the row before the cut, [T]; zero within rounding error."""
        first, second = passes.scores(self.setting, self.ids_BT), passes.scores(self.setting, self.changed_BT)
        change_T = differing(first[self.row, : self.cut], second[self.row, : self.cut])
        return _without_rounding(passes, self.setting, change_T, first)

    def shows(self, passes: Passes) -> bool:
        return bool(self.changes(passes).any())

    def bisected(self, passes: Passes) -> _Suspect:
        """Fewer perturbed tokens, by bisection; several where only together they show the leak."""
        current, places = self, self.changed_places
        while len(places) > 1:
            for half in (places[: len(places) // 2], places[len(places) // 2 :]):
                attempt = current.only(half)
                if attempt.shows(passes):
                    current, places = attempt, half
                    break
            else:
                return current
        return current

    def finding(self, passes: Passes, law: Law, example: dict[str, Any]) -> Finding:
        """With the module where the change enters."""
        change_T = self.changes(passes)
        to_position, source = int(change_T.argmax()), self.changed_places[0][1]
        region = _region(self.ids_BT, self.row, self.cut)
        calls = partial(passes.forward, self.setting, self.ids_BT), partial(passes.forward, self.setting, self.changed_BT)
        place = locate(passes, self.setting, *calls, region, region)
        example = {**example, **passes.describe(self.setting)}
        return Finding(law, place, source, to_position, float(change_T[to_position]), example)


def _region(ids_BT: Tensor, row: int, stop: int) -> Region:
    """The first positions of a row."""
    return Region(ids_BT.shape[0], ids_BT.shape[1], row, 0, stop)


def _without_rounding(passes: Passes, setting: Setting, change: Tensor, scores: Tensor) -> Tensor:
    """The change between two passes of equal shape, with zeros where rounding explains it."""
    if not change.any():
        return change
    return change.masked_fill(change <= passes.allowed(setting, scores.dtype) * largest(scores), 0.0)


# Causality


@dataclass
class Coverage:
    """How much of causality was tested, for the report."""

    lengths: set[int] = field(default_factory=set)
    comparisons: int = 0
    gradients: int = 0

    def __str__(self) -> str:
        lengths = f"{len(self.lengths)} lengths up to {max(self.lengths)}" if self.lengths else "no length"
        by_gradients = f" and {self.gradients} gradients" if self.gradients else ""
        return f"{self.comparisons} changed futures{by_gradients}, {lengths}, float64 and as trained, training and evaluation"


def future_leak(passes: Passes, probes: Probes, coverage: Coverage) -> Finding | None:
    """Causality: the first leak from the future."""
    for setting, length, cuts in _causality_plan(passes, probes):
        suspect = _perturb_futures(passes, probes, setting, length, cuts)
        coverage.lengths.add(length)
        coverage.comparisons += len(cuts)
        if suspect is not None:
            return _causality_finding(passes, probes, suspect)
    for setting in (EVALUATION, TRAINING):
        suspect = _gradients_of_later_tokens(passes, probes, setting, coverage)
        if suspect is not None:
            return _causality_finding(passes, probes, suspect)
    return _check_prefixes(passes, probes)


def _causality_plan(passes: Passes, probes: Probes) -> Iterator[tuple[Setting, int, list[int]]]:
    """Settings, lengths and cuts to test, the cheap ones first."""
    subject, full = passes.subject, passes.subject.context
    works = [length for length in SHORT if length < full and can_run(subject, probes.rows(1, length))]
    for length in works:
        yield EVALUATION, length, probes.cuts(length)
        if length in (3, 8):
            yield TRAINING, length, probes.cuts(length)
            yield TRAINING_AS_TRAINED, length, probes.cuts(length)
            yield replace(AS_TRAINED, graded=True), length, probes.cuts(length)
            yield EVALUATION, length, [1 + i % (length - 1) for i in range(MANY)]
    if probes.brief:
        yield EVALUATION, full, sorted({1, full - 1})
        yield TRAINING_AS_TRAINED, full, [full - 1]
        return
    few = probes.cuts(full, wanted=FEW)
    some = probes.cuts(full, wanted=2 * FEW)
    yield EVALUATION, full, probes.cuts(full)
    yield TRAINING, full, few if probes.heavy else some
    yield TRAINING_AS_TRAINED, full, some
    yield AS_TRAINED, full, some
    if subject.taps():
        yield Setting(looked_at=True), full, few
    if subject.paddings:
        yield Setting(masked=True), full, few
        yield replace(AS_TRAINED, masked=True), full, few
    if passes.has_closed_gates:
        yield Setting(randomised=True), full, few
        yield replace(TRAINING, randomised=True), min(full, 8), probes.cuts(min(full, 8))
    for length in probes.long_lengths():
        if can_run(subject, probes.rows(1, length)):
            yield EVALUATION, length, [length - 1] if probes.heavy else probes.cuts(length, wanted=FEW)


def _perturb_futures(passes: Passes, probes: Probes, setting: Setting, length: int, cuts: list[int]) -> _Suspect | None:
    """Each cut in a row of its own. A suspected leak is confirmed on the row alone, or with the other rows unchanged, since
    another row could have caused it."""
    at_once = probes.rows_at_once(length)
    for start in range(0, len(cuts), at_once):
        cut_B = torch.tensor(cuts[start : start + at_once])
        ids_BT = probes.rows(len(cut_B), length)
        changed_BT = probes.changed_from(ids_BT, cut_B)
        first, second = passes.scores(setting, ids_BT), passes.scores(setting, changed_BT)
        latest = int(cut_B.max())  # positions after every cut need not be compared
        before_BT = differing(first[:, :latest], second[:, :latest]).cpu()
        before_BT = before_BT.masked_fill(torch.arange(latest) >= cut_B.unsqueeze(1), 0.0)
        before_BT = _without_rounding(passes, setting, before_BT, first)
        suspicious = [row for row in before_BT.amax(1).argsort(descending=True).tolist() if before_BT[row].max() > 0][:3]
        for row in suspicious:
            cut, mine_B1 = int(cut_B[row]), (torch.arange(len(cut_B)) == row).unsqueeze(1).to(ids_BT.device)
            alone = _Suspect(setting, ids_BT[row : row + 1], changed_BT[row : row + 1], row=0, cut=cut)
            among = _Suspect(setting, ids_BT, torch.where(mine_B1, changed_BT, ids_BT), row=row, cut=cut)
            for suspect in (alone, among):
                if suspect.shows(passes):
                    return suspect
    return None


def _gradients_of_later_tokens(passes: Passes, probes: Probes, setting: Setting, coverage: Coverage) -> _Suspect | None:
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
            changed_1T = probes.changed_from(ids_1T, torch.tensor([cut]))
            suspect = _Suspect(confirming, ids_1T, changed_1T, row=0, cut=cut, way="gradients")
            if suspect.shows(passes):
                return suspect
    return None


def _check_prefixes(passes: Passes, probes: Probes) -> Finding | None:
    """Compares the prefix of a row alone with the same prefix followed by more tokens."""
    full = passes.subject.context
    for length in sorted({2} if probes.brief else {2, full // 2, full - 1} & set(range(1, full))):
        whole_1T = probes.rows(1, full)
        start_1T = whole_1T[:, :length]
        if not can_run(passes.subject, start_1T):
            continue
        example = {"tokens": start_1T[0].tolist(), "followed_by": whole_1T[0, length:].tolist(), "found_by": "length"}
        found = _compare_shapes(passes, "causality", start_1T, whole_1T, length, example)
        if found is not None:
            return found
    return None


def _compare_shapes(
    passes: Passes, law: Law, small_BT: Tensor, large_BT: Tensor, source: int, example: dict[str, Any]
) -> Finding | None:
    """Compares the first row of two batches of different shapes, at the positions that the first batch has."""
    length = small_BT.shape[1]
    small, large = passes.scores(EVALUATION, small_BT), passes.scores(EVALUATION, large_BT)
    change_T = differing(small[0], large[0, :length])
    calls = partial(passes.forward, EVALUATION, small_BT), partial(passes.forward, EVALUATION, large_BT)
    if not passes.beyond_rounding(EVALUATION, change_T, small, calls[1]):
        return None
    regions = _region(small_BT, 0, length), _region(large_BT, 0, length)
    place, at = locate(passes, EVALUATION, *calls, *regions, same_shape=False), int(change_T.argmax())
    return Finding(law, place, source, at, float(change_T[at]), {**example, **passes.describe(EVALUATION)})


def _causality_finding(passes: Passes, probes: Probes, suspect: _Suspect) -> Finding:
    """The shortest row that shows the leak, with one perturbed token."""
    small = _single_token(passes, _shorter_row(passes, probes, suspect))
    tokens, changed = small.ids_BT[small.row].tolist(), small.changed_BT[small.row].tolist()
    example: dict[str, Any] = {"tokens": tokens, "changed": changed, "found_by": suspect.way}
    if len(small.ids_BT) > 1:
        example["among_rows"] = len(small.ids_BT)
    return small.finding(passes, "causality", example)


def _shorter_row(passes: Passes, probes: Probes, suspect: _Suspect) -> _Suspect:
    """The first of some shorter lengths that leaks in the same setting."""
    length = suspect.ids_BT.shape[1]
    if len(suspect.ids_BT) > 1:
        return suspect
    ladder = [*range(2, 9), 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 2048]
    for shorter in (n for n in ladder if n < length):
        if not can_run(passes.subject, suspect.ids_BT[:, :shorter]):
            continue
        cuts = sorted({shorter - 1, 1, shorter // 2} & set(range(1, shorter)))
        found = _perturb_futures(passes, probes, suspect.setting, shorter, cuts)
        if found is not None:
            return replace(found, way=suspect.way)
    return suspect


def _single_token(passes: Passes, suspect: _Suspect) -> _Suspect:
    """One perturbed token: the one with the largest gradient at the leaking position, else one found by bisection."""
    to_position, row = int(suspect.changes(passes).argmax()), suspect.row
    sizes_BT = passes.gradients(suspect.setting, suspect.ids_BT, lambda scores: scores[row, to_position].square().sum())
    attempts = []
    if sizes_BT is not None and sizes_BT.shape == suspect.ids_BT.shape:
        ranked = (sizes_BT[row, suspect.cut :].argsort(descending=True) + suspect.cut).tolist()
        attempts = [suspect.only([[row, source]]) for source in ranked[:3]]
    leaks = [(float(attempt.changes(passes).max()), -i) for i, attempt in enumerate(attempts)]
    if leaks and max(leaks)[0] > 0:
        return attempts[-max(leaks)[1]]
    return suspect.bisected(passes)


# Batch


def row_leak(passes: Passes, probes: Probes) -> Finding | None:
    """Batch: the first leak between rows."""
    settings = [EVALUATION, TRAINING, TRAINING_AS_TRAINED, AS_TRAINED]
    if passes.subject.taps():
        settings.append(Setting(looked_at=True))
    if passes.subject.paddings:
        settings.append(Setting(masked=True))
    affordable = settings[:1] if probes.brief else settings[:2] if probes.heavy else settings  # on rows of full length
    full = passes.subject.context
    for length in dict.fromkeys((min(5, full), full)):
        if not can_run(passes.subject, probes.rows(ROWS, length)):
            continue
        rows = ROWS if length <= 5 or not probes.heavy else 2
        for setting in affordable if length > 5 else settings:
            for row in (1,) if length > 5 else (1, 0, ROWS - 1):  # the middle row has rows on both sides
                suspect = _perturb_other_rows(passes, probes, setting, rows, length, row)
                if suspect is not None:
                    return _batch_finding(passes, suspect)
    found = _gradients_of_other_rows(passes, probes) or _check_large_batch(passes, probes)
    if found is not None:
        return found
    length = min(64, full) if probes.brief else full
    return _check_row_alone(passes, probes.rows(2 if probes.heavy else ROWS, length))


def _perturb_other_rows(passes: Passes, probes: Probes, setting: Setting, rows: int, length: int, row: int) -> _Suspect | None:
    ids_BT = probes.rows(rows, length)
    changed_BT = probes.others(ids_BT)
    changed_BT[row] = ids_BT[row]
    suspect = _Suspect(setting, ids_BT, changed_BT, row, cut=length)
    return suspect if suspect.shows(passes) else None


def _gradients_of_other_rows(passes: Passes, probes: Probes) -> Finding | None:
    """Gradients of one row's logits with respect to other rows' token vectors, in both modes."""
    length = min(16, passes.subject.context)
    rows = ROWS if length <= 5 or not probes.heavy else 2
    for setting in (EVALUATION, TRAINING):
        ids_BT = probes.rows(ROWS, length)
        sizes_BT = passes.gradients(setting, ids_BT, lambda scores: (scores[0] * scores[0].detach().cos()).sum())
        if sizes_BT is None or sizes_BT.shape != ids_BT.shape:
            return None
        if float(sizes_BT[1:].max()) > passes.allowed(setting, torch.float64) * largest(sizes_BT):
            for confirming in (setting, setting, replace(setting, graded=True)):  # twice: one perturbation may not show it
                suspect = _perturb_other_rows(passes, probes, confirming, rows, length, 0)
                if suspect is not None:
                    return _batch_finding(passes, suspect)
    return None


def _check_large_batch(passes: Passes, probes: Probes) -> Finding | None:
    """Short rows in a large batch, in training and evaluation mode; and such a row alone."""
    length = min(5, passes.subject.context)
    if not can_run(passes.subject, probes.rows(MANY, length)):
        return None
    for setting in (EVALUATION, TRAINING):
        suspect = _perturb_other_rows(passes, probes, setting, MANY, length, MANY // 2)
        if suspect is not None:
            return _batch_finding(passes, suspect)
    return _check_row_alone(passes, probes.rows(MANY, length))


def _check_row_alone(passes: Passes, ids_BT: Tensor) -> Finding | None:
    """Compares a row alone with the same row in a batch."""
    example = {"rows": ids_BT.tolist(), "row": 0, "found_by": "the row alone"}
    return _compare_shapes(passes, "batch", ids_BT[:1], ids_BT, 0, example)


def _batch_finding(passes: Passes, suspect: _Suspect) -> Finding:
    """The shortest pair of rows that shows the leak, with few perturbed tokens."""
    small = suspect
    for length in (n for n in (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256, 512) if n < suspect.ids_BT.shape[1]):
        pair = [0, 1] if suspect.row == 0 else [suspect.row - 1, suspect.row]
        ids_BT, changed_BT = suspect.ids_BT[pair, :length], suspect.changed_BT[pair, :length]
        attempt = _Suspect(suspect.setting, ids_BT, changed_BT, pair.index(suspect.row), cut=length)
        if can_run(passes.subject, ids_BT) and attempt.shows(passes):
            small = attempt
            break
    small = small.bisected(passes)
    rows, changed = small.ids_BT.tolist(), small.changed_BT.tolist()
    example = {"rows": rows, "changed": changed, "row": small.row, "changed_row": small.changed_places[0][0]}
    return small.finding(passes, "batch", example)


# State between calls


def state_between_calls(passes: Passes, probes: Probes) -> Finding | None:
    """State: the first pass that differs after another call."""
    full = passes.subject.context if not probes.heavy else min(64, passes.subject.context)
    short = min(5, full)
    lengths = [(short, short), (short, full), (full, short)] if full > short else [(short, short)]
    for length, between in lengths:
        if any(not can_run(passes.subject, probes.rows(1, n)) for n in (length, between)):
            continue
        ids_BT, other_BT = probes.rows(2, length), probes.rows(2, between)
        for setting in (EVALUATION, AS_TRAINED):
            for earlier_BT in (ids_BT, other_BT):
                found = _alone_and_after(passes, setting, ids_BT, earlier_BT)
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

    change_BT = _without_rounding(passes, setting, differing(fresh, passes.run(setting, after_another)), fresh)
    if not change_BT.any():
        return None
    row, at = divmod(int(change_BT.argmax()), ids_BT.shape[1])
    region = _region(ids_BT, row, ids_BT.shape[1])
    place = locate(passes, setting, partial(passes.forward, setting, ids_BT), after_another, region, region, only_last=True)
    example = {"rows": ids_BT.tolist(), "read_before": earlier_BT.tolist(), "row": row, **passes.describe(setting)}
    return Finding("state", place, 0, at, float(change_BT[row, at]), example)


# Padding


def padding_leak(passes: Passes, probes: Probes) -> Finding | None:
    """Padding: the first dependence on masked tokens. Needs ``subject.paddings``."""
    subject, context = passes.subject, passes.subject.context
    short = (min(5, context), min(16, context))
    for total in dict.fromkeys(short if probes.brief else (*short, context)):
        if total < 2 or not can_run(subject, probes.rows(1, total)):
            continue
        for side, padded in subject.paddings.items():
            for setting in (EVALUATION,) if probes.heavy and total > 16 else (EVALUATION, TRAINING):
                mask_BS = _masks(probes, total, side)
                found = _other_padding(passes, probes, setting, side, padded, mask_BS)
                if found is None and setting is EVALUATION and side != "anywhere":
                    found = _no_padding(passes, probes, side, padded, mask_BS)
                    if found is not None and side in subject.moves:
                        subject.remarks.append(
                            f"It takes no position ids: padded on the {side}, a row has other scores, since its tokens "
                            "stand at other positions."
                        )
                        found = None
                if found is not None:
                    return found
    return None


def _masks(probes: Probes, total: int, side: str) -> Tensor:
    """Masks for rows of unequal length: one full, one nearly full, one short; or scattered positions."""
    if side == "anywhere":
        mask_BS = torch.rand(ROWS, total, generator=probes.generator) < 0.3
        mask_BS[0] = False
        mask_BS[0, min(3, total - 1)] = True
        return mask_BS
    real_B1 = torch.tensor([[total], [total - 1], [max(1, total // 3)]])
    place_S = torch.arange(total) if side == "right" else torch.arange(total).flip(0)
    return place_S >= real_B1


def _other_padding(
    passes: Passes, probes: Probes, setting: Setting, side: str, padded: Padded, mask_BS: Tensor
) -> Finding | None:
    """Compares the rows with other tokens at the masked positions."""
    ids_BT = probes.rows(*mask_BS.shape)
    mask_BS = mask_BS.to(ids_BT.device)
    changed_BT = torch.where(mask_BS, probes.others(ids_BT), ids_BT)
    calls = partial(padded, ids_BT, mask_BS), partial(padded, changed_BT, mask_BS)
    first, second = (passes.run(setting, call) for call in calls)
    change_BT = differing(first, second).masked_fill(mask_BS, 0.0)
    change_BT = _without_rounding(passes, setting, change_BT, first)
    if not change_BT.any():
        return None
    row = int(change_BT.amax(1).argmax())
    region = _unmasked(mask_BS, row)
    place = locate(passes, setting, *calls, region, region)
    example = {"side": side, "found_by": "other padding", **passes.describe(setting)}
    return _padding_finding(place, ids_BT, mask_BS, row, change_BT[row], example)


def _no_padding(passes: Passes, probes: Probes, side: str, padded: Padded, mask_BS: Tensor) -> Finding | None:
    """Compares each padded row with the same row alone and unpadded."""
    ids_BT = probes.rows(*mask_BS.shape)
    mask_BS = mask_BS.to(ids_BT.device)
    among_call = partial(padded, ids_BT, mask_BS)
    among = passes.run(EVALUATION, among_call)
    for row in range(ROWS):
        alone_1T = ids_BT[row : row + 1, ~mask_BS[row]]
        alone_call = partial(passes.subject.scores, alone_1T)
        alone = passes.run(EVALUATION, alone_call)
        change_T = differing(alone[0], among[row, ~mask_BS[row]])
        if passes.beyond_rounding(EVALUATION, change_T, alone, among_call):
            regions = _region(alone_1T, 0, alone_1T.shape[1]), _unmasked(mask_BS, row)
            place = locate(passes, EVALUATION, alone_call, among_call, *regions, same_shape=False)
            padded_T = torch.zeros_like(mask_BS[row], dtype=change_T.dtype)
            padded_T[~mask_BS[row]] = change_T
            example = {"side": side, "found_by": "no padding", **passes.describe(EVALUATION)}
            return _padding_finding(place, ids_BT, mask_BS, row, padded_T, example)
    return None


def _unmasked(mask_BS: Tensor, row: int) -> Region:
    """The unmasked part of a row; with scattered positions the longest unmasked run."""
    rows, length = mask_BS.shape
    best, start = (0, 0), 0
    for at in range(length + 1):
        if at == length or mask_BS[row, at]:
            best, start = max(best, (at - start, -start)), at + 1
    return Region(rows, length, row, -best[1], -best[1] + best[0])


def _padding_finding(
    place: str, ids_BT: Tensor, mask_BS: Tensor, row: int, change_T: Tensor, example: dict[str, Any]
) -> Finding:
    to_position = int(change_T.argmax())
    masked = mask_BS[row].nonzero().flatten().tolist() or mask_BS.nonzero()[:, 1].tolist()
    source = min(masked, key=lambda at: abs(at - to_position)) if masked else 0
    example = {"rows": ids_BT.tolist(), "hidden": mask_BS.int().tolist(), "row": row, **example}
    return Finding("padding", place, source, to_position, float(change_T[to_position]), example)


# Cache


def cache_fault(passes: Passes, probes: Probes) -> Finding | None:
    """Cache: the first chunk whose logits differ from those of one pass. Needs ``subject.new_cache``."""
    for sizes in _chunk_sizes(passes, probes):
        if not can_run(passes.subject, probes.rows(1, sum(sizes))):
            continue
        for rows in (2, 1):
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
    ids_BT = probes.rows(rows, sum(sizes))
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    whole = passes.scores(EVALUATION, ids_BT)

    def read(chunks: int) -> list[Tensor]:
        """The logits of each of the first chunks."""
        cache = _new_cache(passes)
        return [cache.read(ids_BT[:, start : start + size]) for start, size in zip(starts[:chunks], sizes)]

    def all_chunks() -> Tensor:
        return torch.cat(read(len(sizes)), dim=1)

    change_BT = differing(whole, passes.run(EVALUATION, all_chunks))
    if not passes.beyond_rounding(EVALUATION, change_BT, whole, all_chunks):
        return None
    floor = passes.allowed(EVALUATION, whole.dtype, same_shape=False) * largest(whole)
    at = int((change_BT.amax(0) > floor).nonzero()[0])
    chunk = max(i for i, start in enumerate(starts) if start <= at)
    start, size = starts[chunk], sizes[chunk]
    row = int(change_BT[:, at].argmax())
    regions = Region(rows, sum(sizes), row, start, start + size), Region(rows, size, row, 0, size)
    whole_call = partial(passes.subject.scores, ids_BT)
    place = locate(passes, EVALUATION, whole_call, lambda: read(chunk + 1)[-1], *regions, same_shape=False, only_last=True)
    example = {"rows": rows, "tokens": ids_BT[row].tolist(), "pieces": sizes, **passes.describe(EVALUATION)}
    return Finding("cache", place, start, at, float(change_BT[row, at]), example)


def _check_unequal_rows(passes: Passes, probes: Probes) -> Finding | None:
    """Rows of unequal length in one batch, then two more tokens each, compared with each row alone in one pass."""
    full, more = passes.subject.context, 2
    lengths = [max(1, full - 2 - 3), max(1, min(3, full - 2))]
    if full < 4:
        return None
    ids = [probes.rows(1, length + more) for length in lengths]
    padded_BT = torch.zeros(len(ids), max(lengths), dtype=torch.long, device=ids[0].device)
    for row, length in enumerate(lengths):
        padded_BT[row, :length] = ids[row][0, :length]

    def call() -> Tensor:
        cache = _new_cache(passes)
        cache.read(padded_BT, lengths)
        steps = [torch.cat([one[:, length + i : length + i + 1] for one, length in zip(ids, lengths)]) for i in range(more)]
        return torch.cat([cache.read(step) for step in steps], dim=1)

    read = passes.run(EVALUATION, call)
    for row, length in enumerate(lengths):
        alone_call = partial(passes.subject.scores, ids[row])
        whole = passes.scores(EVALUATION, ids[row])
        change_T = differing(whole[0, length:], read[row])
        if passes.beyond_rounding(EVALUATION, change_T, whole, call):
            at = int(change_T.argmax())
            regions = Region(1, length + more, 0, length + more - 1, length + more), Region(len(ids), 1, row, 0, 1)
            place = locate(passes, EVALUATION, alone_call, call, *regions, same_shape=False, only_last=True)
            rows = [one[0].tolist() for one in ids]
            example = {"rows": rows, "read_first": lengths, "row": row, **passes.describe(EVALUATION)}
            return Finding("cache", place, length, length + at, float(change_T[at]), example)
    return None


def _new_cache(passes: Passes) -> Cached:
    assert passes.subject.new_cache is not None
    return passes.subject.new_cache()
