"""Few examples of each label: a head, pairs and full tuning of one encoder against scikit-learn's regression on its vectors.

python bench/few_examples.py --encoder FOLDER --train train.txt --dev dev.txt [--sizes 8,16,32,64] [--seeds 6] [--first N]

Both files have `label text` lines (SST-2's). For each size and seed, that many texts of each label are drawn from train.txt;
every way gets the same texts, and settings that were not tuned on them. Every way is measured on all of dev.txt. Intervals are
over seeds (draws and starts together) crossed with texts; p is Holm's over the ways of one size. Prints a table, writes JSON
under $OUT.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import glassformer as gf
from glassformer.data.labels.label_batches import encode_texts
from glassformer.study.statistics.corrections import holm
from glassformer.study.statistics.two_way import two_way_effects

WAYS: dict[str, dict[str, Any]] = {
    "head, cached": {"model.tuning": {"kind": "head", "cached": True}, "training.lr": 0.01, "training.steps": 300},
    "contrastive": {"model.tuning": "contrastive", "training.lr": 5e-5, "training.steps": 200},
    "full": {"model.tuning": "full", "training.lr": 5e-5, "training.steps": 200},
}
"""Fixed before the first run: the rates that `train` chooses, half of it for full tuning because there are few texts."""
AGAINST = "logistic regression"
MARGIN = 0.01


def drawn(lines: list[str], count: int, seed: int) -> list[str]:
    """``count`` lines of each label."""
    order, found = random.Random(f"{count} {seed}").sample(lines, len(lines)), dict[str, list[str]]()
    for line in order:
        found.setdefault(line.split(maxsplit=1)[0], []).append(line)
    return [line for of_label in found.values() for line in of_label[:count]]


def right_by_way(options: argparse.Namespace, folder: Path, count: int, seed: int) -> dict[str, tuple[np.ndarray, float]]:
    """By way: 1 for each text of dev that is right, and the seconds of training."""
    folder.mkdir()
    lines = [line for line in options.train.read_text(encoding="utf-8").splitlines() if len(line.split()) > 1]
    (folder / "train.txt").write_text("\n".join(drawn(lines, count, seed)) + "\n", encoding="utf-8")
    dev = options.dev.read_text(encoding="utf-8").splitlines()[: options.first]
    (folder / "dev.txt").write_text("\n".join(dev) + "\n", encoding="utf-8")
    recipe = {
        "data": {"path": str(folder / "train.txt"), "validation": str(folder / "dev.txt"), "format": "label-text"},
        "objective": "labels",
        "model": {"kind": "pretrained", "folder": str(options.encoder), "context": options.context},
        "training": {"batch_size": 16, "schedule": {"kind": "linear", "warmup": 20}},
        "evaluation": {"every": 100_000},
        "seed": seed,
    }
    found: dict[str, tuple[np.ndarray, float]] = {}
    for way, settings in WAYS.items():
        began = time.perf_counter()
        short = {} if options.steps is None else {"training.steps": options.steps}
        run = gf.train(recipe, set=settings | short, out=folder / way.replace(", ", "-"))
        seconds = time.perf_counter() - began
        units = run.evaluate().units
        assert units is not None
        found[way] = units["accuracy"].sums, seconds
    run = gf.load(folder / "head-cached")
    network, part = run.network_at(), run.data.part("labels")
    train, held_out = part.split("train"), part.split("validation")
    began = time.perf_counter()
    vectors = [
        network.stored_vectors(encode_texts(run.tokenizer, items, run.recipe.model.context)) for items in (train, held_out)
    ]
    fitted = LogisticRegression(max_iter=1000).fit(vectors[0], train.labels)
    found[AGAINST] = (fitted.predict(vectors[1]) == held_out.labels).astype(float), time.perf_counter() - began
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--sizes", default="8,16,32,64")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=None, help="texts of dev")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--steps", type=int, default=None, help="of every way, for a quick try")
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        for count in map(int, options.sizes.split(",")):
            runs = [right_by_way(options, Path(place) / f"{count}-{seed}", count, seed) for seed in range(options.seeds)]
            right = {way: np.stack([run[way][0] for run in runs]) for way in (*WAYS, AGAINST)}
            effects = {way: two_way_effects(right[way] - right[AGAINST]) for way in WAYS}
            corrected = dict(zip(WAYS, holm([float(one.p) for one in effects.values()])))
            for way in (AGAINST, *WAYS):
                mean = two_way_effects(right[way]).estimate()
                row = {"texts": count, "way": way, "accuracy": [mean.value, mean.low, mean.high]}
                row["seconds"] = float(np.median([run[way][1] for run in runs]))
                if way in WAYS:
                    off, enough = effects[way].estimate(), options.seeds >= 6
                    same = enough and float(effects[way].p_same(MARGIN, answers=True)) <= 0.05
                    decided = enough and corrected[way] <= 0.05
                    word = "same" if same else ("better" if (off.value or 0) > 0 else "worse") if decided else "not decided"
                    row |= {"difference": [off.value, off.low, off.high], "p": float(corrected[way]), "verdict": word}
                results.append(row)
                print(json.dumps(row), flush=True)
            if folder := os.environ.get("OUT"):
                (Path(folder) / f"few-examples-{options.sizes}.json").write_text(
                    json.dumps(results, indent=1), encoding="utf-8"
                )
    print("| texts a class | way | accuracy, % | against logistic regression | seconds |\n|---|---|---|---|---|")
    for row in results:
        value, low, high = (100 * number for number in row["accuracy"])
        against = ""
        if "verdict" in row:
            off, least, most = (100 * number for number in row["difference"])
            against = f"{row['verdict']}, {off:+.1f} [{least:+.1f}, {most:+.1f}], p {row['p']:.3f}"
        print(f"| {row['texts']} | {row['way']} | {value:.1f} [{low:.1f}, {high:.1f}] | {against} | {row['seconds']:.1f} |")


if __name__ == "__main__":
    main()
