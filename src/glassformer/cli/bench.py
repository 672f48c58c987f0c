"""``glassformer bench``: speed on this machine, as ratios with their spread over repeats.

Beside other programs (nanoGPT, transformers) it is measured by bench/beside.py of the repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from glassformer.cli.console import out, print_json, print_table, say, watching
from glassformer.cli.options import Json, Plugin, numbers_in

app = typer.Typer(help="Measure speed, cost and scaling on this machine.", no_args_is_help=True, rich_markup_mode=None)

Width = Annotated[int, Option("--width", min=1)]
Layers = Annotated[int, Option("--layers", min=1)]
Heads = Annotated[int, Option("--heads", min=1)]
Context = Annotated[int, Option("--context", min=1)]
Vocabulary = Annotated[int, Option("--vocabulary", min=2)]
Dropout = Annotated[float, Option("--dropout", min=0.0)]
Bias = Annotated[bool, Option(help="Biases in linear maps and norms.")]
Rows = Annotated[int, Option("--rows", min=1, help="Batch size.")]
Prompt = Annotated[int, Option("--prompt", min=1, help="Tokens of each prompt.")]
New = Annotated[int, Option("--new", min=1, help="Tokens generated after each prompt.")]
CacheOnly = Annotated[bool, Option("--cache-only", help="Skip generation without a KV cache.")]
Batch = Annotated[int, Option("--batch", min=1)]
Steps = Annotated[int, Option("--steps", min=1, help="Steps of each program in each round.")]
BesideCPU = Annotated[bool, Option("--beside-cpu", help="Measure the same steps on the CPU too.")]
Rounds = Annotated[int, Option("--rounds", min=1, help="Repeats: every program runs once per round.")]
Device = Annotated[str, Option("--device", help="auto, cpu or cuda.")]
Precision = Annotated[Literal["auto", "float32", "bf16"], Option("--precision")]
Threads = Annotated[int | None, Option("--threads", min=1, help="CPU threads; default: torch's choice.")]


@app.command("train")
def train(
    width: Width = 384,
    layers: Layers = 6,
    heads: Heads = 6,
    context: Context = 256,
    vocabulary: Vocabulary = 65,
    dropout: Dropout = 0.0,
    bias: Bias = True,
    batch: Batch = 8,
    steps: Steps = 5,
    rounds: Rounds = 3,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    beside_cpu: BesideCPU = False,
    json: Json = False,
) -> None:
    """Measure training steps. In tokens per second and as a share of this machine's rate of matrix products."""
    from glassformer.benchmark.speed import Sizes, TrainingJob, benchmark_training
    from glassformer.foundation.runtime import choose_runtime

    sizes = Sizes(width=width, layers=layers, heads=heads, context=context, vocabulary=vocabulary, dropout=dropout, bias=bias)
    job = TrainingJob(sizes, choose_runtime(device=device, precision=precision, threads=threads), batch, steps)
    with watching() as watch:
        document = benchmark_training(job, rounds=rounds, beside_cpu=beside_cpu, watch=watch)
    _print(document, as_json=json)


@app.command("generate")
def generate(
    width: Width = 384,
    layers: Layers = 6,
    heads: Heads = 6,
    context: Context = 1024,
    vocabulary: Vocabulary = 65,
    bias: Bias = True,
    rows: Rows = 1,
    prompt: Prompt = 256,
    new: New = 256,
    rounds: Rounds = 3,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    cache_only: CacheOnly = False,
    json: Json = False,
) -> None:
    """Measure generation with and without a KV cache."""
    from glassformer.benchmark.speed import GenerationJob, Sizes, benchmark_generation
    from glassformer.foundation.runtime import choose_runtime

    sizes = Sizes(width=width, layers=layers, heads=heads, context=context, vocabulary=vocabulary, bias=bias)
    job = GenerationJob(sizes, choose_runtime(device=device, precision=precision, threads=threads), rows, prompt, new)
    with watching() as watch:
        document = benchmark_generation(job, rounds=rounds, without_cache=not cache_only, watch=watch)
    _print(document, as_json=json)


@app.command("attention")
def attention(
    mixer: Annotated[list[str] | None, Option(metavar="NAME", help="Measure this mixer only. Repeatable.")] = None,
    lengths: Annotated[str, Option(metavar="N,N,...", help="Sequence lengths, in rising order.")] = "64,128,256,512,1024,2048",
    width: Width = 128,
    heads: Heads = 4,
    repeats: Annotated[int, Option(min=1, help="Passes per length; the fastest counts.")] = 5,
    device: Device = "cpu",
    figure: Annotated[Path | None, Option("--out", metavar="FILE.svg", help="Plot to this file (.svg or .png).")] = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Measure time and memory of every mixer. At several lengths, with the growth exponent and the theory."""
    from glassformer.benchmark.attention import benchmark_attention
    from glassformer.foundation.plugins import load_plugins

    numbers = numbers_in(lengths, "--lengths", "64,128,256")
    load_plugins(plugin or ())
    with watching() as watch:
        document = benchmark_attention(
            names=mixer, lengths=numbers, width=width, heads=heads, repeats=repeats, device=device, watch=watch
        )
    if figure is not None:
        from glassformer.figures.cost_by_length import scaling
        from glassformer.figures.save import save_figure

        machine = document["machine"]["device"]
        title = f"Forward and backward pass of one mixer, width {width}, {heads} heads, {machine}"
        save_figure(scaling(document["mixers"], title=title), figure)
        say(f"Drawn: {figure}")
    _print(document, as_json=json)
    if not json and document["mixers"]:
        out().print(
            f"Exponents are fitted over the {document['mixers'][0]['time']['n']} longest lengths, with standard errors. The "
            "formula counts the FLOPs of the reference implementation: a fast path may do less.",
            markup=False,
        )


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    from glassformer.benchmark.table import heading, rows_of

    for sentence in document["skipped"]:
        say(sentence)
    if as_json:
        print_json(document)
    elif document["benchmark"] == "attention":
        print_table(heading(document), *rows_of(document))
    else:
        say(heading(document))
        print_table("median (lowest to highest round)", *rows_of(document))
