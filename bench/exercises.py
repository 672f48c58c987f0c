"""The runs of docs/exercises that need a GPU -> one JSON document: optimizers, a grid, names, words.

    python bench/exercises.py --out FOLDER [--encoder FOLDER] [--steps N] [JOB ...]

Jobs: ``optimizers`` and ``grid`` (need --encoder, all-MiniLM-L6-v2 or another), ``names``, ``synthesizer``, ``words``; by
default all that can be run. GLASSFORMER_DATA has sst2, names and wikitext-2. ``--steps``: cut every training short, for a try.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer.foundation.files import write_json

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


def grid(out: Path, encoder: str, steps: int | None) -> dict[str, Any]:
    """All cells of the exercise's grid, the chosen one, and dev opened once for it."""
    tune = {"training.batch_size": [64, 128, 256], "training.lr": [1e-4, 5e-5, 1e-5], "training.epochs": [2, 5]}
    settings = {"model.folder": encoder, "checkpoint.every": 10_000}
    if steps is not None:
        tune, settings = {"training.lr": [1e-4, 5e-5]}, {**settings, **shortened(steps)}
    study = gf.compare(
        "sst2-exercise", set={"data.validation": None, **settings}, tune={"grid": tune, "seeds": 2}, seeds=2, out=out / "grid"
    )
    best = study.runs()[0]
    accuracy = {split: best.evaluate(split).metrics["accuracy"].to_dict() for split in ("train", "validation", "test:dev")}
    return {"cells": study.tuning_table, "best": accuracy, "openings": best.directory.openings()}


def names(out: Path, steps: int | None, mixer: str = "dot") -> dict[str, Any]:
    """Pretrained, fine-tuned and asked, and without pretraining, with the exercise's rows and settings (S2.1 to S2.4)."""
    part = {"model.mixer": mixer, **shortened(steps)}
    parent = gf.train("names-pretrain-exercise", set={**part, "evaluation.every": None}, out=out / f"pretrain-{mixer}")
    tuned = gf.train("names-finetune-exercise", set={**part, "init_from": str(parent.folder)}, out=out / f"tuned-{mixer}")
    epochs = {"training.epochs": 75, **part}
    scratch = gf.train("names-finetune-exercise", set={**epochs, "init_from": None}, out=out / f"scratch-{mixer}")
    return {
        name: run.evaluate("test:dev").metrics["exact_match"].to_dict()
        for name, run in {"pretrained": tuned, "without pretraining": scratch}.items()
    }


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


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder")
    parser.add_argument("--steps", type=int)
    asked = parser.parse_args(given)
    out, steps, encoder = asked.out, asked.steps, asked.encoder
    jobs: dict[str, Callable[[], dict[str, Any]]] = {
        "names": lambda: names(out, steps),
        "synthesizer": lambda: names(out, steps, "synthesizer"),
        "words": lambda: words(out, steps),
    }
    if encoder is not None:
        with_encoder = {"optimizers": optimizers, "grid": grid}
        jobs |= {name: lambda job=job: job(out, encoder, steps) for name, job in with_encoder.items()}  # type: ignore[misc]
    document: dict[str, Any] = {"seconds": {}}
    for name in asked.jobs or jobs:
        began = time.monotonic()
        document[name] = jobs[name]()
        document["seconds"][name] = round(time.monotonic() - began, 1)
        write_json(out / "exercises.json", document)
        print(name, document["seconds"][name], "s", flush=True)
        if name not in ("optimizers", "grid"):
            print(document[name], flush=True)


if __name__ == "__main__":
    main()
