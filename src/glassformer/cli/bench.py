"""``glassformer bench``: speed on this machine, as ratios with their spread over repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from glassformer.cli.bench_attention import bench_attention
from glassformer.cli.console import print_json, print_table, say, watching
from glassformer.cli.options import Json

app = typer.Typer(help="Measure speed, cost and scaling on this machine.", no_args_is_help=True, rich_markup_mode=None)
app.command("attention")(bench_attention)

Width = Annotated[int, typer.Option("--width", min=1)]
Layers = Annotated[int, typer.Option("--layers", min=1)]
Heads = Annotated[int, typer.Option("--heads", min=1)]
Context = Annotated[int, typer.Option("--context", min=1)]
Vocabulary = Annotated[int, typer.Option("--vocabulary", min=2)]
Bias = Annotated[bool, typer.Option(help="Biases in linear maps and norms (transformers' class always has them).")]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Repeats: every program runs once per round.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
Precision = Annotated[Literal["auto", "float32", "bf16"], typer.Option("--precision")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads; default: torch's choice.")]
Transformers = Annotated[bool, typer.Option(help="Measure transformers' GPT-2 class too, where it is installed.")]
NanoGPT = Annotated[
    Path | None, typer.Option("--nanogpt", metavar="DIR", help="Measure the nanoGPT in this folder too (runs its code).")
]


@app.command("generate")
def bench_generate(
    width: Width = 384,
    layers: Layers = 6,
    heads: Heads = 6,
    context: Context = 1024,
    vocabulary: Vocabulary = 65,
    bias: Bias = True,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Batch size.")] = 1,
    prompt: Annotated[int, typer.Option("--prompt", min=1, help="Tokens of each prompt.")] = 256,
    new: Annotated[int, typer.Option("--new", min=1, help="Tokens generated after each prompt.")] = 256,
    rounds: Rounds = 3,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    cache_only: Annotated[bool, typer.Option("--cache-only", help="Skip generation without a KV cache.")] = False,
    first_job: Annotated[
        bool, typer.Option("--first-job", help="Also measure a cold start: the first generation of a new process.")
    ] = False,
    transformers: Transformers = True,
    nanogpt: NanoGPT = None,
    json: Json = False,
) -> None:
    """Measure generation with and without a KV cache. Beside other programs with the same model size."""
    from glassformer.benchmark.generate import benchmark_generation
    from glassformer.benchmark.generators import Job
    from glassformer.benchmark.peers import Sizes
    from glassformer.foundation.runtime import choose_runtime

    runtime = choose_runtime(device=device, precision=precision, threads=threads)
    sizes = Sizes(width=width, layers=layers, heads=heads, context=context, vocabulary=vocabulary, bias=bias)
    with watching() as watch:
        document = benchmark_generation(
            Job(sizes, rows, prompt, new, nanogpt),
            runtime,
            rounds=rounds,
            without_cache=not cache_only,
            transformers=transformers,
            first_job=first_job,
            watch=watch,
        )
    _print(document, as_json=json)


@app.command("train")
def bench_train(
    width: Width = 384,
    layers: Layers = 6,
    heads: Heads = 6,
    context: Context = 256,
    vocabulary: Vocabulary = 65,
    dropout: Annotated[float, typer.Option("--dropout", min=0.0)] = 0.0,
    bias: Bias = True,
    batch: Annotated[int, typer.Option("--batch", min=1)] = 8,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of each program in each round.")] = 5,
    rounds: Rounds = 3,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    transformers: Transformers = True,
    nanogpt: NanoGPT = None,
    beside_cpu: Annotated[bool, typer.Option("--beside-cpu", help="Measure the same steps on the CPU too.")] = False,
    json: Json = False,
) -> None:
    """Measure training steps. Beside other programs with the same model size and plain matrix products."""
    from glassformer.benchmark.peers import Sizes
    from glassformer.benchmark.train import benchmark_training
    from glassformer.foundation.runtime import choose_runtime

    runtime = choose_runtime(device=device, precision=precision, threads=threads)
    sizes = Sizes(width=width, layers=layers, heads=heads, context=context, vocabulary=vocabulary, dropout=dropout, bias=bias)
    with watching() as watch:
        document = benchmark_training(
            sizes,
            runtime,
            batch=batch,
            steps=steps,
            rounds=rounds,
            transformers=transformers,
            nanogpt=nanogpt,
            beside_cpu=beside_cpu,
            watch=watch,
        )
    _print(document, as_json=json)


OfRecipe = Annotated[
    str | None, typer.Option("--recipe", metavar="NAME", help="Train this recipe as it stands, instead of a tiny one.")
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one key of the recipe. Repeatable.")
]
NanoGPTConfig = Annotated[
    str,
    typer.Option("--nanogpt-config", metavar="FILE", help="With --recipe: nanoGPT's config file to train with."),
]
NanoGPTSteps = Annotated[
    int | None, typer.Option("--nanogpt-steps", min=1, help="Steps for nanoGPT; default: the same as here.")
]
SHAKESPEARE, VARIED = "config/train_shakespeare_char.py", "model.positions=sinusoidal"


@app.command("start")
def bench_start(
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of the run.")] = 20,
    recipe: OfRecipe = None,
    set_: Changes = None,
    rounds: Rounds = 2,
    nanogpt: NanoGPT = None,
    nanogpt_config: NanoGPTConfig = SHAKESPEARE,
    nanogpt_steps: NanoGPTSteps = None,
    json: Json = False,
) -> None:
    """Measure a whole `glassformer train`. From command to end, as a multiple of `python -c "import torch"`."""
    from glassformer.benchmark.start import Peer, Work, benchmark_start

    peer = None if nanogpt is None else Peer(nanogpt, nanogpt_config, nanogpt_steps, _texts_of)
    with watching() as watch:
        document = benchmark_start(Work(steps, recipe, tuple(set_ or ())), rounds=rounds, peer=peer, watch=watch)
    _print(document, as_json=json)


@app.command("study")
def bench_study(
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of each run.")] = 100,
    recipe: OfRecipe = None,
    set_: Changes = None,
    vary: Annotated[str, typer.Option("--vary", metavar="KEY=VALUE", help="The variant to compare with.")] = VARIED,
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="Runs of each of the two variants.")] = 4,
    rounds: Rounds = 2,
    nanogpt: NanoGPT = None,
    nanogpt_config: NanoGPTConfig = SHAKESPEARE,
    nanogpt_steps: NanoGPTSteps = None,
    json: Json = False,
) -> None:
    """Measure a small study from command to verdict. With an empty cache, beside the same runs one by one."""
    from glassformer.benchmark.start import Peer, Work, benchmark_study

    work, peer = (
        Work(steps, recipe, tuple(set_ or ())),
        Peer(nanogpt, nanogpt_config, nanogpt_steps, _texts_of) if nanogpt else None,
    )
    with watching() as watch:
        document = benchmark_study(work, vary=vary, seeds=seeds, rounds=rounds, peer=peer, watch=watch)
    _print(document, as_json=json)


def _texts_of(recipe: str, changes: tuple[str, ...]) -> tuple[bytes, bytes, int]:
    """The training and the validation text of a recipe as its tokenizer cuts them, in 16 bits, and the number of tokens."""
    import numpy as np

    from glassformer.assembly import prepare_data
    from glassformer.foundation.config import parse_assignment
    from glassformer.foundation.errors import UsageError
    from glassformer.recipe import load_recipe

    data = prepare_data(load_recipe(recipe, dict(parse_assignment(change) for change in changes)))
    if data.tokenizer.size > 1 << 16:
        raise UsageError(f"nanoGPT keeps tokens in 16 bits; {recipe} has {data.tokenizer.size:,} of them.")
    training, validation = (np.asarray(data.split(name).tokens).astype(np.uint16).tobytes() for name in ("train", "validation"))
    return training, validation, data.tokenizer.size


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    from glassformer.benchmark.table import heading, rows_of

    for sentence in document["skipped"]:
        say(sentence)
    if as_json:
        print_json(document)
        return
    say(heading(document))
    columns, rows = rows_of(document)
    print_table("median (lowest to highest round)", columns, rows)
