"""Glassformer beside other programs on this machine, in turns: transformers' GPT-2 class, a nanoGPT checkout, whole commands.

    python bench/beside.py train [--nanogpt DIR] [--no-transformers] [flags of glassformer bench train]
    python bench/beside.py generate [--nanogpt DIR] [--first-job] [flags of glassformer bench generate]
    python bench/beside.py start [--recipe NAME] [--nanogpt DIR]       # a whole `glassformer train` beside `import torch`
    python bench/beside.py study [--recipe NAME] [--nanogpt DIR]       # a whole study beside its runs one by one
    python bench/beside.py demo --nanogpt DIR                          # the runs of `glassformer demo`, one thread each
    python bench/beside.py table FILE.json...                          # saved documents as Markdown

``--json`` prints the document instead of its table. All programs have models of the same sizes, and each runs in the mode it
has by itself.
"""

from __future__ import annotations

import json as json_text
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import nanogpt
import torch
import typer

from glassformer.benchmark.measure import Program, compared, dtype_of, measure, spread, synchronize, timed
from glassformer.benchmark.speed import (
    OURS,
    WITHOUT_CACHE,
    GenerationJob,
    Sizes,
    TrainingJob,
    benchmark_generation,
    benchmark_training,
    generation_program,
)
from glassformer.benchmark.table import heading, rate_and_ratio, rows_of, shown
from glassformer.cli import bench as flags
from glassformer.cli.console import watching
from glassformer.cli.options import Json
from glassformer.foundation.config import parse_assignment
from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.foundation.files import read_json
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import choose_runtime
from glassformer.runs.records import MetricsLog

TRANSFORMERS, NANOGPT, NANOCHAT = "transformers GPT-2", "nanoGPT", "nanochat"
IMPORT_TORCH, COLD, WARM = 'python -c "import torch"', "train, nothing kept", "train, kept data and checks"
STUDY, ONE_BY_ONE, NANOGPT_RUNS = "study", "the same runs one by one", "as many nanoGPT runs"
TINY = {"model.width": 32, "model.layers": 2, "model.heads": 2, "model.context": 32, "training.batch_size": 8}
DEMO = {
    "model.width": 64,
    "model.layers": 2,
    "model.heads": 4,
    "model.context": 64,
    "training.batch_size": 16,
    "training.steps": 600,
}
DEMO_RUNS = {OURS: 4 * 8, NANOGPT: 5 * 8}
"""Variants by seeds. The change that cheats is refused by a check here; by hand it is trained too."""
RECIPE = "docstrings-char"
Seconds = tuple[float, float]
"""On the wall, of the processor (all threads and children)."""

app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
Transformers = Annotated[bool, typer.Option(help="Measure transformers' GPT-2 class too.")]
NanoGPT = Annotated[Path | None, typer.Option("--nanogpt", metavar="DIR", help="Measure this nanoGPT too (runs its code).")]


# Training and generation: tokens per second.


@app.command("train")
def train(
    width: flags.Width = 384,
    layers: flags.Layers = 6,
    heads: flags.Heads = 6,
    context: flags.Context = 256,
    vocabulary: flags.Vocabulary = 65,
    dropout: flags.Dropout = 0.0,
    bias: flags.Bias = True,
    batch: flags.Batch = 8,
    steps: flags.Steps = 5,
    rounds: flags.Rounds = 3,
    device: flags.Device = "auto",
    precision: flags.Precision = "auto",
    threads: flags.Threads = None,
    transformers: Transformers = True,
    nanogpt: NanoGPT = None,
    nanochat: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Measure this nanochat's model and optimizer too.")
    ] = None,
    beside_cpu: flags.BesideCPU = False,
    json: Json = False,
) -> None:
    """Training steps of the same batch over the same tokens."""
    sizes = Sizes(width=width, layers=layers, heads=heads, context=context, vocabulary=vocabulary, dropout=dropout, bias=bias)
    job = TrainingJob(sizes, choose_runtime(device=device, precision=precision, threads=threads), batch, steps)
    with watching() as watch:
        document = train_beside(
            job, rounds=rounds, transformers=transformers, folder=nanogpt, nanochat=nanochat, beside_cpu=beside_cpu, watch=watch
        )
    show(document, as_json=json)


def train_beside(
    job: TrainingJob,
    *,
    rounds: int,
    transformers: bool = True,
    folder: Path | None = None,
    nanochat: Path | None = None,
    beside_cpu: bool = False,
    watch: Watcher = SILENT,
) -> dict[str, Any]:
    """The document of ``glassformer bench train`` with the other programs in it, and their peak memory."""
    others, peaks = {}, dict[str, int]()
    here = {TRANSFORMERS: transformers_training} if transformers else {}
    if nanochat is not None:
        here[NANOCHAT] = partial(nanochat_training, nanochat)
    on_cuda = job.runtime.device.type == "cuda"
    for name, make in here.items():
        before = torch.cuda.memory_allocated() if on_cuda else 0
        if on_cuda:
            torch.cuda.reset_peak_memory_stats()
        program = _in_its_own_mode(make(job))
        program()  # compiles, and chooses kernels
        if on_cuda:
            peaks[name] = torch.cuda.max_memory_allocated() - before
        others[name] = timed(program, job.runtime.device)
    if folder is not None:

        def nanogpt_rate() -> float:
            trained = nanogpt.train(folder, job)
            if trained.peak_bytes:
                peaks[NANOGPT] = trained.peak_bytes
            return trained.rate

        others[NANOGPT] = nanogpt_rate
    document = benchmark_training(job, rounds=rounds, beside_cpu=beside_cpu, others=others, watch=watch)
    document["peak_bytes"] |= peaks
    return document


def transformers_model(sizes: Sizes) -> Any:
    """``GPT2LMHeadModel`` with fresh weights; it always has biases."""
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    config = GPT2Config(
        vocab_size=sizes.vocabulary,
        n_positions=sizes.context,
        n_embd=sizes.width,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        bos_token_id=None,
        eos_token_id=None,
        resid_pdrop=sizes.dropout,
        embd_pdrop=sizes.dropout,
        attn_pdrop=sizes.dropout,
    )
    return GPT2LMHeadModel(config)


def transformers_training(job: TrainingJob) -> Program:
    """A plain loop around the GPT-2 class: AdamW, clipping, the same precision."""
    runtime = job.runtime
    model = transformers_model(job.sizes).to(runtime.device).train()
    fused = runtime.device.type == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=fused)
    batches = job.batches()

    def program() -> float:
        for number in range(job.steps):
            inputs_BT = batches.batch(number).to(runtime.device)["ids"]
            with runtime.autocast():
                loss = model(input_ids=inputs_BT, labels=inputs_BT).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return job.work

    return program


def nanochat_training(folder: Path, job: TrainingJob) -> Program:
    """nanochat's own model and optimizer (Muon, and AdamW for the rest), compiled as its script does. At equal width and depth
    it has more parameters than GPT-2: a head of its own and tables of value embeddings. All layers see the whole context: its
    windows want a kernel that it downloads."""
    nanogpt.file_of(folder, "nanochat/gpt.py")
    sys.path.insert(0, str(folder))
    from nanochat.gpt import GPT, GPTConfig  # type: ignore[import-not-found]

    sizes, device = job.sizes, job.runtime.device
    config = GPTConfig(
        sequence_len=sizes.context,
        vocab_size=sizes.vocabulary,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        n_kv_head=sizes.heads,
        n_embd=sizes.width,
        window_pattern="L",
    )
    with torch.device(device):
        model = GPT(config)
    model.init_weights()
    optimizer = model.setup_optimizer()
    compiled, batches = torch.compile(model, dynamic=False), job.batches()

    def program() -> float:
        for number in range(job.steps):
            batch = batches.batch(number).to(device)
            compiled(batch["ids"], batch["targets"]).backward()
            optimizer.step()
            model.zero_grad(set_to_none=True)
        return job.work

    return program


@app.command("generate")
def generate(
    width: flags.Width = 384,
    layers: flags.Layers = 6,
    heads: flags.Heads = 6,
    context: flags.Context = 1024,
    vocabulary: flags.Vocabulary = 65,
    bias: flags.Bias = True,
    rows: flags.Rows = 1,
    prompt: flags.Prompt = 256,
    new: flags.New = 256,
    rounds: flags.Rounds = 3,
    device: flags.Device = "auto",
    precision: flags.Precision = "auto",
    threads: flags.Threads = None,
    cache_only: flags.CacheOnly = False,
    first_job: Annotated[bool, typer.Option("--first-job", help="Also the first job of a new process.")] = False,
    transformers: Transformers = True,
    nanogpt: NanoGPT = None,
    json: Json = False,
) -> None:
    """Generation at temperature 1: ours with and without a KV cache, transformers with its cache, nanoGPT."""
    sizes = Sizes(width=width, layers=layers, heads=heads, context=context, vocabulary=vocabulary, bias=bias)
    job = GenerationJob(sizes, choose_runtime(device=device, precision=precision, threads=threads), rows, prompt, new)
    with watching() as watch:
        document = generate_beside(
            job,
            rounds=rounds,
            without_cache=not cache_only,
            first_job=first_job,
            transformers=transformers,
            folder=nanogpt,
            watch=watch,
        )
    show(document, as_json=json)


def generate_beside(
    job: GenerationJob,
    *,
    rounds: int,
    without_cache: bool = True,
    first_job: bool = False,
    transformers: bool = True,
    folder: Path | None = None,
    watch: Watcher = SILENT,
) -> dict[str, Any]:
    """The document of ``glassformer bench generate`` with the other programs, and rates of the first job of a process."""
    fits = job.prompt + job.new <= job.sizes.context
    others = [TRANSFORMERS] * (transformers and fits) + [NANOGPT] * (folder is not None)
    first = {}
    if first_job:  # before there is anything else on the device
        names = [OURS, *([WITHOUT_CACHE] if without_cache else []), *others]
        first = measure({name: partial(first_job_rate, name, job, folder) for name in names}, rounds=rounds, watch=watch)
    programs = {name: program_for(name, job, folder) for name in others}
    document = benchmark_generation(job, rounds=rounds, without_cache=without_cache, others=programs, watch=watch)
    if transformers and not fits:
        document["skipped"].append(f"{TRANSFORMERS} is left out: it cannot write beyond its context of {job.sizes.context}.")
    return document | ({"first_job": compared(first, OURS)} if first else {})


def program_for(name: str, job: GenerationJob, folder: Path | None) -> Program:
    """The program of that name, its model on the device."""
    runtime, ids_BT = job.runtime, job.prompts()
    if name in (OURS, WITHOUT_CACHE):
        return generation_program(job, use_cache=name == OURS)
    if name == TRANSFORMERS:
        model = transformers_model(job.sizes).to(runtime.device, dtype_of(runtime.precision)).eval()
        settings = {"do_sample": True, "top_k": 0, "use_cache": True, "pad_token_id": 0}

        def program() -> float:
            with torch.inference_mode(), _as_torch_starts():
                mask_BT = torch.ones_like(ids_BT)
                written_BT = model.generate(ids_BT, attention_mask=mask_BT, max_new_tokens=job.new, **settings)
            return float(written_BT.numel() - ids_BT.numel())

        return program
    assert folder is not None
    gpt: Any = nanogpt.build(folder, job.sizes).to(runtime.device).eval()

    def sample() -> float:  # as its sample.py: float32 weights, on a GPU products in bf16
        with torch.no_grad(), runtime.autocast(), _as_torch_starts():
            written_BT = gpt.generate(ids_BT, job.new, temperature=1.0)
        return float(written_BT.numel() - ids_BT.numel())

    return sample


@contextmanager
def _as_torch_starts() -> Iterator[None]:
    """Without our deterministic mode, which may bar others from their fastest kernels."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("default")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


def _in_its_own_mode(program: Program) -> Program:
    def run() -> float:
        with _as_torch_starts():
            return program()

    return run


def first_job_rate(name: str, job: GenerationJob, folder: Path | None) -> float:
    """Tokens/s of the first job of a new process, its model already on the device: loading and choosing kernels counts."""
    runtime = job.runtime
    order = {
        "name": name,
        "sizes": asdict(job.sizes),
        "job": [job.rows, job.prompt, job.new],
        "machine": {"device": str(runtime.device), "precision": runtime.precision, "threads": runtime.threads},
        "nanogpt": None if folder is None else str(folder.resolve()),
    }
    command = [sys.executable, __file__, "first-job-of-a-process"]
    child = subprocess.run(command, input=json_text.dumps(order), capture_output=True, text=True, check=False)
    if child.returncode != 0:
        last_line = child.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"{name} could not do its first job in a process of its own: {last_line}", reason="first-job-failed")
    return float(child.stdout.strip().rpartition("\n")[2])


@app.command("first-job-of-a-process", hidden=True)
def first_job_of_a_process() -> None:
    """Reads its job from standard input and prints its rate."""
    order = json_text.load(sys.stdin)
    job = GenerationJob(Sizes(**order["sizes"]), choose_runtime(**order["machine"]), *order["job"])
    program = program_for(order["name"], job, Path(order["nanogpt"]) if order["nanogpt"] else None)
    synchronize(job.runtime.device)
    print(timed(program, job.runtime.device)())


# Whole commands: seconds from the command to its end. On a busy machine compare the seconds of the processor.


@dataclass(frozen=True)
class Work:
    """What is trained: a tiny model with one evaluation, or a recipe as it stands; ``changes`` are values of ``--set``."""

    steps: int
    recipe: str | None = None
    changes: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """Of the command line, after the verb."""
        once = {"evaluation.every": self.steps, "checkpoint.every": self.steps, **TINY}
        values = {"training.steps": self.steps} | ({} if self.recipe else once)
        changes = [*(f"{key}={value}" for key, value in values.items()), *self.changes]
        return [self.recipe or RECIPE, *(word for change in changes for word in ("--set", change))]

    @property
    def settings(self) -> dict[str, Any]:
        changes = dict(change.split("=", 1) for change in self.changes)
        return {"recipe": self.recipe or RECIPE, "steps": self.steps, **({} if self.recipe else TINY), **changes}


@dataclass(frozen=True)
class Peer:
    """A nanoGPT folder; beside a recipe of ours it trains by its own ``config`` on our text, for ``steps`` or as many as we."""

    folder: Path
    config: str = "config/train_shakespeare_char.py"
    steps: int | None = None

    def train(self, work: Work, scratch: Path, seed: int = 0) -> Seconds:
        if work.recipe is None:
            nanogpt.prepare(self.folder, scratch, nanogpt.random_texts(vocabulary=7))
            once = {"max_iters": work.steps, "eval_interval": work.steps, "log_interval": work.steps}
            return seconds_of(nanogpt.train_command({**nanogpt_sizes(TINY), **once}), scratch)
        texts = nanogpt.recipe_texts(work.recipe, dict(parse_assignment(change) for change in work.changes))
        nanogpt.prepare(self.folder, scratch, texts, self.config, seed=seed)
        return seconds_of(nanogpt.own_config_command(self.config, self.steps or work.steps), scratch)


def nanogpt_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Our sizes by nanoGPT's names."""
    return {
        "n_layer": sizes["model.layers"],
        "n_head": sizes["model.heads"],
        "n_embd": sizes["model.width"],
        "block_size": sizes["model.context"],
        "batch_size": sizes["training.batch_size"],
        "gradient_accumulation_steps": 1,
    }


StepsOfRun = Annotated[int, typer.Option("--steps", min=1, help="Steps of each run.")]
OfRecipe = Annotated[str | None, typer.Option("--recipe", metavar="NAME", help="Train this recipe instead of a tiny one.")]
Changes = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one key. Repeatable.")]
NanoGPTConfig = Annotated[str, typer.Option("--nanogpt-config", metavar="FILE", help="With --recipe: its config file.")]
NanoGPTSteps = Annotated[int | None, typer.Option("--nanogpt-steps", min=1, help="Its steps; default: the same as ours.")]


@app.command("start")
def start(
    steps: StepsOfRun = 20,
    recipe: OfRecipe = None,
    set_: Changes = None,
    rounds: flags.Rounds = 2,
    nanogpt: NanoGPT = None,
    nanogpt_config: NanoGPTConfig = Peer.config,
    nanogpt_steps: NanoGPTSteps = None,
    json: Json = False,
) -> None:
    """A whole `glassformer train`, with empty and with full caches, as a multiple of `python -c "import torch"`."""
    peer = None if nanogpt is None else Peer(nanogpt, nanogpt_config, nanogpt_steps)
    with watching() as watch:
        document = benchmark_start(Work(steps, recipe, tuple(set_ or ())), rounds=rounds, peer=peer, watch=watch)
    show(document, as_json=json)


def benchmark_start(work: Work, *, rounds: int, peer: Peer | None = None, watch: Watcher = SILENT) -> dict[str, Any]:
    """Seconds of a whole ``glassformer train``, cold and warm, beside ``import torch`` and nanoGPT; and the losses reached.
    Every round trains with a seed of its own."""
    losses: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        def ours(seed: int, *, cold: bool) -> Seconds:
            seconds = _train(folder, work, cold=cold, seed=seed)
            if work.recipe and not cold and (loss := _loss(folder / "run")) is not None:
                losses.setdefault(WARM, []).append(loss)
            return seconds

        programs: dict[str, Callable[[int], Seconds]] = {
            IMPORT_TORCH: lambda seed: seconds_of([sys.executable, "-c", "import torch"], folder),
            COLD: partial(ours, cold=True),
            WARM: partial(ours, cold=False),
        }
        if peer is not None:

            def of_peer(seed: int) -> Seconds:
                seconds = peer.train(work, folder / "nanogpt", seed)
                if work.recipe:
                    losses.setdefault(NANOGPT, []).append(nanogpt.validation_loss(folder / "nanogpt", peer.config))
                return seconds

            programs[NANOGPT] = of_peer
        found = _in_turns(programs, rounds, watch)
    return _document("start", found, IMPORT_TORCH, work.settings) | {"validation_loss": losses}


@app.command("study")
def study(
    steps: StepsOfRun = 100,
    recipe: OfRecipe = None,
    set_: Changes = None,
    vary: Annotated[str, typer.Option("--vary", metavar="KEY=VALUE", help="The variant.")] = "model.positions=sinusoidal",
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="Runs of each of the two variants.")] = 4,
    rounds: flags.Rounds = 2,
    nanogpt: NanoGPT = None,
    nanogpt_config: NanoGPTConfig = Peer.config,
    nanogpt_steps: NanoGPTSteps = None,
    json: Json = False,
) -> None:
    """A small study from command to verdict, with an empty cache, beside the same runs one by one."""
    peer = None if nanogpt is None else Peer(nanogpt, nanogpt_config, nanogpt_steps)
    work = Work(steps, recipe, tuple(set_ or ()))
    with watching() as watch:
        document = benchmark_study(work, vary=vary, seeds=seeds, rounds=rounds, peer=peer, watch=watch)
    show(document, as_json=json)


def benchmark_study(
    work: Work, *, vary: str, seeds: int, rounds: int, peer: Peer | None = None, watch: Watcher = SILENT
) -> dict[str, Any]:
    """Seconds of a study of 2 variants by ``seeds``, empty store, beside one run times their number."""
    runs = 2 * seeds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        def whole_study(seed: int) -> Seconds:
            shutil.rmtree(folder / "study", ignore_errors=True)
            words = ["compare", *work.words, "--vary", vary, "--seeds", str(seeds), "--no-store", "--out", "study", "--quiet"]
            return seconds_of(_glassformer(*words), folder, cache=folder / "cache")

        def times_the_runs(one: Seconds) -> Seconds:
            return runs * one[0], runs * one[1]

        programs: dict[str, Callable[[int], Seconds]] = {
            STUDY: whole_study,
            ONE_BY_ONE: lambda seed: times_the_runs(_train(folder, work, cold=False)),
        }
        if peer is not None:
            programs[NANOGPT_RUNS] = lambda seed: times_the_runs(peer.train(work, folder / "nanogpt"))
        found = _in_turns(programs, rounds, watch)
    return _document("study", found, STUDY, {**work.settings, "variants": 2, "vary": vary, "seeds": seeds})


@app.command("demo")
def demo(
    nanogpt_folder: Annotated[Path, typer.Option("--nanogpt", metavar="DIR", help="A nanoGPT checkout (runs its code).")],
    rounds: flags.Rounds = 2,
    json: Json = False,
) -> None:
    """The baseline of `glassformer demo` in nanoGPT and here, one thread each, and what all runs of the demo take so.

    What the whole demo takes on this machine is not measured here: time `glassformer demo`.
    """
    changes = {**DEMO, "evaluation.every": 200}
    texts = nanogpt.recipe_texts(RECIPE, changes)
    steps, one_thread = DEMO["training.steps"], {"OMP_NUM_THREADS": "1"}
    values = {
        **nanogpt_sizes(DEMO),
        **{"max_iters": steps, "lr_decay_iters": steps, "eval_interval": 200, "eval_iters": 20, "log_interval": 100},
        **{"learning_rate": 2e-3, "warmup_iters": 50, "dropout": 0.0},
        **{"device": "cpu", "dtype": "float32", "compile": False},
    }
    words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as scratch, watching() as watch:
        folder = Path(scratch)

        def by_hand(seed: int) -> Seconds:
            nanogpt.prepare(nanogpt_folder, folder / "nanogpt", texts)
            return seconds_of(nanogpt.train_command(values), folder / "nanogpt", **one_thread)

        def ours(seed: int) -> Seconds:
            shutil.rmtree(folder / "run", ignore_errors=True)
            command = _glassformer("train", RECIPE, *words, "--set", "training.device=cpu", "--out", "run", "--quiet")
            return seconds_of(command, folder, **one_thread)

        found = _in_turns({OURS: ours, NANOGPT: by_hand}, rounds, watch)
    all_runs = {name: {"runs": runs, "cpu_seconds": runs * _median(found[name], 1)} for name, runs in DEMO_RUNS.items()}
    document = _document("demo", found, OURS, {"recipe": RECIPE, **changes}) | {"all_runs": all_runs}
    show(document, as_json=json)
    if not json:
        for name, whole in all_runs.items():
            print(f"{name}: {whole['runs']} runs take {whole['cpu_seconds']:.0f} seconds of the processor")


def seconds_of(command: list[str], folder: Path, *, cache: Path | None = None, **variables: str) -> Seconds:
    """Runs a command to its end. A command that fails raises its last words."""
    before, began = os.times(), time.perf_counter()
    if cache is not None:  # ours, that of torch's compiler and that of Triton
        places = {"GLASSFORMER_CACHE": "glassformer", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
        variables |= {name: str(cache / place) for name, place in places.items()}
    environment = {**os.environ, **variables}
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, os.times()
    if answer.returncode != 0:
        last = (answer.stderr or answer.stdout).strip().rpartition("\n")[2]
        raise GlassformerError(f"{' '.join(command[1:4])} ended with {answer.returncode}: {last}", reason="command-failed")
    return wall, after.children_user - before.children_user + after.children_system - before.children_system


def _train(folder: Path, work: Work, *, cold: bool, seed: int = 0) -> Seconds:
    shutil.rmtree(folder / "run", ignore_errors=True)
    if cold:
        shutil.rmtree(folder / "cache", ignore_errors=True)
    return seconds_of(
        _glassformer("train", *work.words, "--seed", str(seed), "--out", "run", "--quiet"), folder, cache=folder / "cache"
    )


def _loss(run: Path) -> float | None:
    """The last validation loss that a run recorded, where its objective has one."""
    records = MetricsLog(run / "metrics.jsonl").read()
    found = [float(record["validation_loss"]) for record in records if "validation_loss" in record]
    return found[-1] if found else None


def _glassformer(*words: str) -> list[str]:
    return [sys.executable, "-m", "glassformer", *words]


def _in_turns(programs: Mapping[str, Callable[[int], Seconds]], rounds: int, watch: Watcher) -> dict[str, list[Seconds]]:
    found: dict[str, list[Seconds]] = {name: [] for name in programs}
    for turn in range(rounds):
        for place, (name, program) in enumerate(programs.items()):
            found[name].append(program(turn))
            watch.progress("measuring", turn * len(programs) + place + 1, rounds * len(programs), {name: found[name][-1][0]})
    return found


def _median(pairs: list[Seconds], kind: int) -> float:
    return float(spread([pair[kind] for pair in pairs])["value"])


def _document(kind: str, found: Mapping[str, list[Seconds]], base: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Seconds and, round by round, the ratio to ``base``; the spread is over the rounds."""
    machine: dict[str, Any] = {"date": date.today().isoformat(), "cores": os.cpu_count(), "python": platform.python_version()}
    if hasattr(os, "getloadavg"):
        machine["load"] = round(os.getloadavg()[0], 1)
    pairs_of_base = found[base]
    return {
        "benchmark": kind,
        "machine": machine,
        "settings": settings,
        "seconds": {name: spread([wall for wall, _ in pairs]) for name, pairs in found.items()},
        "cpu_seconds": {name: spread([cpu for _, cpu in pairs]) for name, pairs in found.items()},
        "times_as_long_as": base,
        "ratio": {name: spread([a[0] / b[0] for a, b in zip(pairs, pairs_of_base)]) for name, pairs in found.items()},
        "cpu_ratio": {
            name: spread([a[1] / max(b[1], 1e-3) for a, b in zip(pairs, pairs_of_base)]) for name, pairs in found.items()
        },
        "skipped": [],
    }


# Documents as Markdown, for docs/performance.md.


@app.command("table")
def table(files: list[Path]) -> None:
    """Saved documents as Markdown."""
    print("\n".join(markdown(read_json(file)) for file in files))


def show(document: dict[str, Any], *, as_json: bool) -> None:
    for sentence in document["skipped"]:
        print(sentence, file=sys.stderr)
    print(json_text.dumps(document, indent=2) if as_json else markdown(document))


def markdown(document: Mapping[str, Any]) -> str:
    """A sentence and a table."""
    if "cpu_seconds" in document:
        machine = document["machine"]
        load = f", load {machine['load']}" if "load" in machine else ""
        work = ", ".join(f"{key} {value}" for key, value in document["settings"].items())
        sentence = f"{machine['date']}, {machine['cores']} cores{load}, Python {machine['python']}: {work}."
        columns, rows = _seconds_rows(document)
    else:
        sentence, (columns, rows) = heading(document), rows_of(document)
        if first := document.get("first_job"):
            columns = [*columns, "first job of a process, tokens/s", "we are times as fast"]
            rows = [[*row, *rate_and_ratio(first, row[0])] for row in rows]
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join([sentence, "", *("| " + " | ".join(line) + " |" for line in lines), ""])


def _seconds_rows(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    base, kinds = document["times_as_long_as"], ("seconds", "ratio", "cpu_seconds", "cpu_ratio")
    columns = ["command", "seconds", f"times `{base}`", "processor seconds", f"times `{base}`"]
    rows = [[name, *(shown(document[kind][name]) for kind in kinds)] for name in document["seconds"]]
    if losses := document.get("validation_loss"):
        columns.append("validation loss by seed")
        rows = [[*row, " ".join(f"{loss:.4f}" for loss in losses.get(row[0], ()))] for row in rows]
    return columns, rows


if __name__ == "__main__":
    try:
        app()
    except GlassformerError as error:
        sys.exit(str(error))
