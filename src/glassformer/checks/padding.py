"""Padding: no logit depends on it. Tested with other padding, without any, and with masked tokens anywhere if supported."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from glassformer.checks.check_report import Finding
from glassformer.checks.locate import Region, locate
from glassformer.checks.passes import Passes, Setting, differing, largest
from glassformer.checks.probes import Probes
from glassformer.checks.subject import Padded, can_run

ROWS = 3
SETTINGS = (Setting(), Setting(mode="training"))


def padding_leak(passes: Passes, probes: Probes) -> Finding | None:
    """The first dependence on masked tokens, or None. Needs ``subject.paddings``."""
    context = passes.subject.context
    short = (min(5, context), min(16, context))
    for total in dict.fromkeys(short if probes.brief else (*short, context)):
        if total < 2 or not can_run(passes.subject, probes.rows(1, total)):
            continue
        for side, padded in passes.subject.paddings.items():
            for setting in SETTINGS[:1] if probes.heavy and total > 16 else SETTINGS:
                key_padding_mask_BS = _masks(probes, total, side)
                found = _check_other_padding(passes, probes, setting, side, padded, key_padding_mask_BS)
                if found is None and setting.mode == "evaluation" and side != "anywhere":
                    found = _check_no_padding(passes, probes, setting, side, padded, key_padding_mask_BS)
                    if found is not None and side in passes.subject.moves:
                        passes.subject.remarks.append(
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
        key_padding_mask_BS = torch.rand(ROWS, total, generator=probes.generator) < 0.3
        key_padding_mask_BS[0] = False
        key_padding_mask_BS[0, min(3, total - 1)] = True
        return key_padding_mask_BS
    real_B1 = torch.tensor([[total], [total - 1], [max(1, total // 3)]])
    place_S = torch.arange(total) if side == "right" else torch.arange(total).flip(0)
    return place_S >= real_B1


def _check_other_padding(
    passes: Passes, probes: Probes, setting: Setting, side: str, padded: Padded, key_padding_mask_BS: Tensor
) -> Finding | None:
    """Compares the rows with other tokens at the masked positions."""
    ids_BT = probes.rows(*key_padding_mask_BS.shape)
    key_padding_mask_BS = key_padding_mask_BS.to(ids_BT.device)
    changed_BT = torch.where(key_padding_mask_BS, probes.others(ids_BT), ids_BT)
    calls = partial(padded, ids_BT, key_padding_mask_BS), partial(padded, changed_BT, key_padding_mask_BS)
    first, second = (passes.run(setting, call) for call in calls)
    change_BT = differing(first, second).masked_fill(key_padding_mask_BS, 0.0)
    if not change_BT.any() or float(change_BT.max()) <= passes.allowed(setting, first.dtype) * largest(first):
        return None
    row = int(change_BT.amax(1).argmax())
    region = _unmasked(key_padding_mask_BS, row, side)
    place = locate(passes, setting, *calls, region, region)
    return _finding(passes, setting, side, ids_BT, key_padding_mask_BS, change_BT, row, place, "other padding")


def _check_no_padding(
    passes: Passes, probes: Probes, setting: Setting, side: str, padded: Padded, key_padding_mask_BS: Tensor
) -> Finding | None:
    """Compares each padded row with the same row alone and unpadded."""
    ids_BT = probes.rows(*key_padding_mask_BS.shape)
    key_padding_mask_BS = key_padding_mask_BS.to(ids_BT.device)
    among_call = partial(padded, ids_BT, key_padding_mask_BS)
    among = passes.run(setting, among_call)
    for row in range(ROWS):
        alone_1T = ids_BT[row : row + 1, ~key_padding_mask_BS[row]]
        alone_call = partial(passes.subject.scores, alone_1T)
        alone = passes.run(setting, alone_call)
        change_T = differing(alone[0], among[row, ~key_padding_mask_BS[row]])
        if passes.beyond_rounding(setting, change_T, alone, among_call):
            length = alone_1T.shape[1]
            regions = Region(1, length, 0, 0, length), _unmasked(key_padding_mask_BS, row, side)
            place = locate(passes, setting, alone_call, among_call, *regions, same_shape=False)
            change_BT = torch.zeros_like(key_padding_mask_BS, dtype=change_T.dtype)
            change_BT[row, ~key_padding_mask_BS[row]] = change_T
            return _finding(passes, setting, side, ids_BT, key_padding_mask_BS, change_BT, row, place, "no padding")
    return None


def _unmasked(key_padding_mask_BS: Tensor, row: int, side: str) -> Region:
    """The unmasked part of a row; with scattered positions the longest unmasked run."""
    rows, length = key_padding_mask_BS.shape
    best, start = (0, 0), 0
    for at in range(length + 1):
        if at == length or key_padding_mask_BS[row, at]:
            best, start = max(best, (at - start, -start)), at + 1
    return Region(rows, length, row, -best[1], -best[1] + best[0])


def _finding(
    passes: Passes,
    setting: Setting,
    side: str,
    ids_BT: Tensor,
    key_padding_mask_BS: Tensor,
    change_BT: Tensor,
    row: int,
    place: str,
    way: str,
) -> Finding:
    to_position = int(change_BT[row].argmax())
    hidden_in_row = key_padding_mask_BS[row].nonzero().flatten().tolist() or key_padding_mask_BS.nonzero()[:, 1].tolist()
    source = min(hidden_in_row, key=lambda at: abs(at - to_position)) if hidden_in_row else 0
    example = {
        "rows": ids_BT.tolist(),
        "hidden": key_padding_mask_BS.int().tolist(),
        "row": row,
        "side": side,
        "found_by": way,
        **passes.describe(setting),
    }
    return Finding("padding", place, source, to_position, float(change_BT[row, to_position]), example)
