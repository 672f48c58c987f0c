"""``glassformer bench attention``: time and memory of every mixer against length, beside the formula."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.console import out, print_json, print_table, say, watching
from glassformer.cli.options import Json, Plugin
from glassformer.foundation.errors import UsageError

if TYPE_CHECKING:
    from glassformer.benchmark.attention import MixerCost


def bench_attention(
    mixer: Annotated[
        list[str] | None, typer.Option("--mixer", metavar="NAME", help="Measure this mixer only. Repeatable.")
    ] = None,
    lengths: Annotated[
        str, typer.Option("--lengths", metavar="N,N,...", help="Sequence lengths, in rising order.")
    ] = "64,128,256,512,1024,2048",
    width: Annotated[int, typer.Option("--width", min=1)] = 128,
    heads: Annotated[int, typer.Option("--heads", min=1)] = 4,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Passes per length; the fastest counts.")] = 5,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "cpu",
    figure: Annotated[Path | None, typer.Option("--out", metavar="FILE.svg", help="Plot to this file (.svg or .png).")] = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Measure time and memory of every mixer. At several lengths, with the growth exponent and the theory."""
    from glassformer.benchmark import attention
    from glassformer.benchmark.table import heading, rows_of
    from glassformer.foundation.plugins import load_plugins

    load_plugins(plugin or ())
    with watching() as watch:
        document, costs = attention.bench_attention(
            names=mixer, lengths=_numbers(lengths), width=width, heads=heads, repeats=repeats, device=device, watch=watch
        )
    if figure is not None:
        on = document["machine"]["device"]
        _draw(costs, figure, f"Forward and backward pass of one mixer, width {width}, {heads} heads, {on}")
        say(f"Drawn: {figure}")
    if json:
        print_json(document)
        return
    print_table(heading(document), *rows_of(document))
    out().print(
        f"Exponents are fitted over the {costs[0].time_growth.n} longest lengths, with standard errors. The formula counts the "
        "FLOPs of the reference implementation: a fast path may do less.",
        markup=False,
    )


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--lengths {text!r} must be whole numbers with commas between, such as 64,128,256.") from None


def _note(cost: MixerCost) -> str:
    formula = f", formula n^{cost.formula_growth.exponent:.1f}" if any(cost.flops) else ""
    return f"time n^{cost.time_growth.exponent:.1f}, memory n^{cost.memory_growth.exponent:.1f}{formula}"


def _draw(costs: list[MixerCost], file: Path, title: str) -> None:
    import numpy as np

    from glassformer.figures.encode import save_figure
    from glassformer.figures.scaling import ScalingPanel, scaling

    panels = [
        ScalingPanel(
            title=cost.name,
            note=_note(cost),
            lengths=np.array(cost.lengths),
            seconds=np.array(cost.seconds),
            bytes=np.array(cost.bytes),
            flops=np.array(cost.flops),
        )
        for cost in costs
    ]
    save_figure(scaling(panels, title=title), file)
