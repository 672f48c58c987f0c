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
    mixer: Annotated[list[str] | None, typer.Option("--mixer", metavar="NAME", help="Only this one; may be repeated.")] = None,
    lengths: Annotated[str, typer.Option("--lengths", metavar="N,N,...", help="Rising.")] = "64,128,256,512,1024,2048",
    width: Annotated[int, typer.Option("--width", min=1)] = 128,
    heads: Annotated[int, typer.Option("--heads", min=1)] = 4,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="The best of so many passes is taken.")] = 5,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "cpu",
    figure: Annotated[Path | None, typer.Option("--out", metavar="FILE.svg", help="Draw it here (.svg or .png).")] = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Time and memory of every mixer against length, the exponent with which they grow, and the formula beside them."""
    from glassformer.benchmark.attention import measure_mixers
    from glassformer.foundation.plugins import load_plugins
    from glassformer.foundation.runtime import choose_device, device_name

    load_plugins(plugin or ())
    chosen = choose_device(device)
    with watching() as watch:
        costs = measure_mixers(
            names=mixer, lengths=_numbers(lengths), width=width, heads=heads, repeats=repeats, device=chosen, watch=watch
        )
    if figure is not None:
        _draw(costs, figure, f"Forward and backward pass of one mixer, width {width}, {heads} heads, {device_name(chosen)}")
        say(f"Drawn: {figure}")
    if json:
        print_json({"device": device_name(chosen), "width": width, "heads": heads, "mixers": [cost.plain() for cost in costs]})
        return
    rows = [
        [
            cost.name,
            f"{1e3 * cost.seconds[-1]:.2f} ms",
            f"{cost.bytes[-1] / 2**20:.1f} MiB",
            str(cost.time_growth),
            str(cost.memory_growth),
            str(cost.formula_growth) if any(cost.flops) else "-",
        ]
        for cost in costs
    ]
    last = costs[0].lengths[-1]
    columns = ["mixer", f"time at {last:,}", f"memory at {last:,}", "time grows as n^", "memory n^", "formula n^"]
    print_table("One forward and backward pass of a mixer alone", columns, rows)
    out().print(f"Exponents are fitted over the {costs[0].time_growth.n} longest lengths, with standard errors.", markup=False)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--lengths {text!r} must be whole numbers with commas between, such as 64,128,256.") from None


def _draw(costs: list[MixerCost], file: Path, title: str) -> None:
    import numpy as np

    from glassformer.figures.encode import save_figure
    from glassformer.figures.scaling import ScalingPanel, scaling

    panels = [
        ScalingPanel(
            title=cost.name,
            note=f"time n^{cost.time_growth.exponent:.1f}, memory n^{cost.memory_growth.exponent:.1f}",
            lengths=np.array(cost.lengths),
            seconds=np.array(cost.seconds),
            bytes=np.array(cost.bytes),
            flops=np.array(cost.flops),
        )
        for cost in costs
    ]
    save_figure(scaling(panels, title=title), file)
