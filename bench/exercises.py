"""The runs of docs/exercises that need a GPU -> one JSON document: optimizers, a grid, names, words.

    python bench/exercises.py --out FOLDER [--encoder FOLDER] [--jobs N] [--steps N] [JOB ...]

Jobs: ``optimizers`` and ``grid`` (need --encoder, all-MiniLM-L6-v2 or another), ``names``, ``synthesizer``, ``words``; by
default all that can be run. GLASSFORMER_DATA has sst2, names and wikitext-2. ``--jobs``: runs of the grid at once. ``--steps``:
cut every training short, for a try. What is done stands in FOLDER/exercises.json; a job that fails is named there, and the
others are run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer.foundation.files import write_atomically, write_json
from glassformer.foundation.runtime import choose_device, device_name

RATE = {"adamw": 5e-5, "sgd": 5e-5, "adagrad": 5e-5}


def shortened(steps: int | None) -> dict[str, Any]:
    return {} if steps is None else {"training.epochs": None, "training.steps": steps, "evaluation.every": steps}


def optimizers(out: Path, encoder: str, steps: int | None) -> dict[str, Any]:
    """Loss and accuracy of training and validation after every epoch, one rate for all (S0.5)."""
    found = {}
    for name, rate in RATE.items():
        settings = {"model.folder": encoder, "training.optimizer": name, "training.lr": rate, **shortened(steps)}
        run = gf.train("sst2-exercise", set=settings, out=out / "optimizers" / name)
        kept = [record for record in run.records() if "validation_accuracy" in record]
        found[name] = {
            key: [record[key] for record in kept]
            for key in ("step", "train_loss", "train_accuracy", "validation_loss", "validation_accuracy")
            if all(key in record for record in kept)
        }
    from glassformer.figures.save import save_figure
    from glassformer.run_report import curves_figure

    save_figure(curves_figure([out / "optimizers" / name for name in RATE]), out / "curves-of-optimizers.svg")
    return found


def grid(out: Path, encoder: str, steps: int | None, jobs: int | None) -> dict[str, Any]:
    """All cells of the exercise's grid by accuracy on a tenth of the training file; then dev is opened once by the best."""
    tune = {"training.batch_size": [64, 128, 256], "training.lr": [1e-4, 5e-5, 1e-5], "training.epochs": [2, 5]}
    settings: dict[str, Any] = {"data.validation": None, "model.folder": encoder, "checkpoint.every": 10_000}
    if steps is not None:
        tune, settings = {"training.lr": [1e-3, 3e-2]}, {**settings, **shortened(steps)}
    search = {"grid": tune, "seeds": 2}
    study = gf.compare("sst2-exercise", set=settings, tune=search, seeds=2, metric="accuracy", jobs=jobs, out=out / "grid")
    best = study.runs()[0]
    accuracy = {split: best.evaluate(split).metrics["accuracy"].to_dict() for split in ("train", "validation", "test:dev")}
    return {"cells": study.tuning_table, "best": accuracy, "openings": best.directory.openings()}


def names(out: Path, steps: int | None, seed: int, mixer: str = "dot") -> dict[str, Any]:
    """Pretrained, fine-tuned and asked, and without pretraining, with the exercise's rows and settings (S2.1 to S2.4)."""
    part = {"model.mixer": mixer, "seed": seed, **shortened(steps)}
    label = {"dot": "vanilla"}.get(mixer, mixer)
    scratch_epochs = {"training.epochs": 75, **part}
    found: dict[str, Any] = {}

    def asked(name: str, run: gf.Run) -> None:
        """Exact answers about the people of dev, and the two files that are handed in."""
        evaluation = run.evaluate("test:dev")
        baselines = {key: one["exact_match"].to_dict() for key, one in evaluation.baselines.items() if "exact_match" in one}
        found[name] = {"dev": evaluation.metrics["exact_match"].to_dict(), "baselines": baselines}
        for split, file in {"dev": "dev.tsv", "test": "test_inputs.tsv"}.items():
            answers = run.ask(run.questions(Path(os.environ["GLASSFORMER_DATA"]) / "names" / file))
            write_atomically(out / f"{label}.{name}.{split}.predictions", "".join(f"{one.answer}\n" for one in answers))
        print(mixer, name, evaluation.metrics["exact_match"], flush=True)

    scratch = gf.train("names-finetune-exercise", set={**scratch_epochs, "init_from": None}, out=out / f"scratch-{mixer}")
    asked("nopretrain", scratch)
    began = time.monotonic()
    parent = gf.train("names-pretrain-exercise", set={**part, "evaluation.every": None}, out=out / f"pretrain-{mixer}")
    tuned = gf.train("names-finetune-exercise", set={**part, "init_from": str(parent.folder)}, out=out / f"tuned-{mixer}")
    found["seconds of pretraining and tuning"] = round(time.monotonic() - began, 1)
    found["parameters"] = sum(weight.numel() for weight in tuned.model.parameters())
    asked("pretrain", tuned)
    return found


def words(out: Path, steps: int | None) -> dict[str, Any]:
    """gpt-nano on words with learned positions and with waves whose odd numbers have exponents of their own (S0.3)."""
    found: dict[str, Any] = {}
    for name, positions in {"learned": "learned", "sinusoidal": {"kind": "sinusoidal", "exponent": "own"}}.items():
        for seed in range(2):
            settings = {"model.positions": positions, "evaluation.every": 2000, **shortened(steps)}
            run = gf.train("gpt-nano-words", set=settings, seed=seed, out=out / f"words-{name}-{seed}")
            texts = run.evaluate_own_texts()
            figures = {"dev": run.evaluate().metrics["document_perplexity"].to_dict()}
            figures |= {text: one.metrics["perplexity"].to_dict() for text, one in texts.items()}
            found.setdefault(name, {})[str(seed)] = figures
    return found


def main(given: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="JOB", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0, help="Of names and synthesizer.")
    asked = parser.parse_args(given)
    out, steps, encoder = asked.out, asked.steps, asked.encoder
    jobs: dict[str, Callable[[], dict[str, Any]]] = {
        "names": lambda: names(out, steps, asked.seed),
        "synthesizer": lambda: names(out, steps, asked.seed, "synthesizer"),
        "words": lambda: words(out, steps),
    }
    if encoder is not None:
        jobs["optimizers"] = lambda: optimizers(out, encoder, steps)
        jobs["grid"] = lambda: grid(out, encoder, steps, asked.jobs)
    if unknown := {*asked.names} - {*jobs}:
        parser.error(f"no such job, or it needs --encoder: {', '.join(sorted(unknown))}")
    git = shutil.which("git")
    answer = subprocess.run([git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False) if git else None
    commit = answer.stdout.strip() if answer and answer.returncode == 0 else None
    document: dict[str, Any] = {
        "commit": commit,
        "steps": steps,
        "seed": asked.seed,
        "machine": device_name(choose_device("auto")),
        "seconds": {},
        "failed": {},
    }
    out.mkdir(parents=True, exist_ok=True)
    for name in asked.names or jobs:
        began = time.monotonic()
        try:
            document[name] = jobs[name]()
        except Exception as error:  # the other jobs go on; what went wrong stands in the document
            traceback.print_exc()
            document["failed"][name] = str(error)
        document["seconds"][name] = round(time.monotonic() - began, 1)
        write_json(out / "exercises.json", document)
        print(name, document["seconds"][name], "s", flush=True)
    return document


if __name__ == "__main__":
    main()
