"""The scaling figure: one picture per part, each line a share of its own last value."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.figures.cost_by_length import scaling
from glassformer.figures.save import inline_svg


def panel(title: str, power: float, *, flops: bool = True) -> dict[str, Any]:
    lengths = [64, 128, 256]
    figures = {"seconds": [1e-6 * n**power for n in lengths], "bytes": [4 * n for n in lengths]}
    grown = {kind: {"exponent": power} for kind in ("time", "memory", "formula")}
    return {"mixer": title, "lengths": lengths, **figures, "flops": [n**2 * flops for n in lengths], **grown}


def test_lines_are_shares_of_their_last_value() -> None:
    figure = scaling([panel("dot", 2.0)], title="all")
    (axes,) = figure.axes
    lines = {str(line.get_label()): line.get_ydata() for line in axes.get_lines()}
    assert list(lines["time"]) == pytest.approx([1 / 16, 1 / 4, 1.0])
    assert list(lines["memory"]) == pytest.approx([1 / 4, 1 / 2, 1.0])
    assert list(lines["formula (FLOPs)"]) == pytest.approx([1 / 16, 1 / 4, 1.0])


def test_no_formula_no_line() -> None:
    (axes,) = scaling([panel("none", 0.0, flops=False)]).axes
    assert [str(line.get_label()) for line in axes.get_lines()] == ["time", "memory"]


def test_all_pictures_share_their_limits_and_are_written() -> None:
    figure = scaling([panel(f"mixer {i}", 1.0 + 0.3 * i) for i in range(6)])
    assert len(figure.axes) == 6
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert inline_svg(figure).startswith("<svg")
