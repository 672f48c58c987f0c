"""The diagnosis on runs that its rules were not made from: 14 planted faults, 12 sound runs, each seconds of CPU.

    python bench/diagnosis.py FOLDER [NAME]... [--json FILE]

Prints what each run got, and at the end how many faults got their code and how many sound runs a warning. Rules and the runs
that they were made from: src/glassformer/runs/diagnosis.py, tests/runs/planted_runs.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.runs.planted_runs import recipe  # noqa: E402

import glassformer as gf  # noqa: E402
from glassformer.foundation.errors import Diverged  # noqa: E402
from glassformer.runs.diagnosis import diagnosis_of  # noqa: E402
from glassformer.runs.directory import RunDirectory  # noqa: E402


def second_order(seed: int, documents: int, letters: str = "klmnopqrst") -> list[str]:
    """Lines of letters, each drawn given the two before it."""
    draw, size = np.random.default_rng(seed), len(letters)
    shares = np.exp(np.random.default_rng(7).gumbel(size=(size, size, size)) * 1.5)
    shares /= shares.sum(-1, keepdims=True)
    lines = []
    for _ in range(documents):
        line = list(draw.integers(0, size, 2))
        for _ in range(48):
            line.append(draw.choice(size, p=shares[line[-2], line[-1]]))
        lines.append("".join(letters[at] for at in line))
    return lines


def classes(seed: int, count: int, labels: list[str], noise: float, shares: list[float] | None = None) -> list[str]:
    """``label<TAB>text`` with words of each label; ``noise``: the share of labels drawn at random."""
    draw = np.random.default_rng(seed)
    filler = ["this", "that", "these", "those", "here", "there", "now", "soon", "late", "early"]
    rows = ["label\ttext"]
    for _ in range(count):
        label = str(draw.choice(labels, p=shares))
        text = [*draw.choice(filler, 6), *draw.choice([f"{label}{end}" for end in "xyz"], 2)]
        draw.shuffle(text)
        rows.append(f"{draw.choice(labels) if draw.random() < noise else label}\t{' '.join(text)}")
    return rows


def write_data() -> None:
    copies = second_order(5, 150)
    files = {
        "second.txt": second_order(1, 900),
        "one.txt": ["the quick brown fox jumps over the lazy dog"] * 400,
        "small.txt": second_order(3, 20),
        "copies.txt": copies * 3,
        "three.tsv": classes(1, 700, ["red", "green", "blue"], 0.1),
        "shuffled.tsv": classes(2, 90, ["red", "green", "blue"], 1.0),
        "rare.tsv": classes(3, 500, ["usual", "odd"], 0.02, [0.96, 0.04]),
        "rarer.tsv": classes(13, 600, ["usual", "odd"], 0.0, [0.97, 0.03]),
        "clean.tsv": classes(4, 700, ["up", "down"], 0.0),
        "five.tsv": classes(5, 900, list("abcde"), 0.15),
    }
    for name, lines in files.items():
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def on_docstrings(**changes: Any) -> dict[str, Any]:
    return recipe("second.txt", **changes) | {"data": {"set": "docstrings"}}


def on_pairs(**changes: Any) -> dict[str, Any]:
    model = {"kind": "encoder-decoder", "width": 32, "heads": 2, "layers": 1, "context": 32}
    return recipe("second.txt", **changes) | {"data": {"set": {"kind": "rewriting"}}, "objective": "translate", "model": model}


MASKED = {"objective": {"kind": "masked"}, "model__causal": False, "model__head": "masked"}
CONSTANT = {"training__schedule": "constant"}
PLANTED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "docstrings, rate 1e-8": (on_docstrings(training__lr=1e-8), {"flat"}),
    "docstrings, SGD at 1000": (
        on_docstrings(training__lr=1e3, training__optimizer="sgd", training__clip=None, **CONSTANT),
        {"diverged", "worse-than-uniform", "unstable"},
    ),
    "docstrings, bytes, AdamW at 0.5": (
        on_docstrings(tokenizer={"kind": "byte"}, training__lr=0.5, **CONSTANT),
        {"unstable", "worse-than-uniform", "flat"},
    ),
    "one sentence 400 times": (recipe("one.txt"), {"same-text"}),
    "twenty lines, wide": (recipe("small.txt", model__width=96, model__layers=2, **CONSTANT), {"overfitting"}),
    "shuffled labels": (recipe("shuffled.tsv", training__lr=1e-2, **CONSTANT), {"overfitting"}),
    "masked, rate 1e-8": (recipe("second.txt", training__lr=1e-8, **MASKED), {"flat"}),
    "4 % of one class": (recipe("rare.tsv", training__lr=1e-4, training__steps=100), {"one-class"}),
    "3 % of one class": (recipe("rarer.tsv", training__lr=1e-4, training__steps=60, evaluation__every=6), {"one-class"}),
    "rewriting, 40 steps": (
        on_pairs(training__steps=40, evaluation__every=4, training__lr=1e-3, **CONSTANT),
        {"still-learning"},
    ),
    "three copies of each line": (recipe("copies.txt"), {"same-text"}),
    "not causal": (recipe("second.txt", model__causal=False), {"too-good"}),
    "not causal, 1500 steps": (
        recipe("second.txt", model__causal=False, training__steps=1500, evaluation__every=100),
        {"too-good"},
    ),
    "warm-up longer than the run": (
        recipe("second.txt", training__lr=1e-4, training__schedule={"kind": "cosine", "warmup": 20000}),
        {"flat"},
    ),
}
SOUND: dict[str, dict[str, Any]] = {
    "second order, 3000 steps": recipe("second.txt", training__steps=3000, evaluation__every=200),
    "bytes": recipe("second.txt", tokenizer={"kind": "byte"}),
    "bpe": recipe("second.txt", tokenizer={"kind": "bpe", "vocab": 300}, training__steps=900, evaluation__every=60),
    "masked": recipe("second.txt", **MASKED),
    "three labels": recipe("three.tsv"),
    "five labels, noise .15": recipe("five.tsv"),
    "labels a bag of words solves": recipe("clean.tsv"),
    "linear attention": recipe("second.txt", model__mixer="linear"),
    "gated, rms, 3 layers": recipe(
        "second.txt", model__layers=3, model__norm="rms", model__feedforward="gated", training__steps=900, evaluation__every=60
    ),
    "lion": recipe("second.txt", training__optimizer="lion", training__lr=1e-3),
    "a rare class": recipe("rare.tsv"),
    "docstrings, width 16, 1500 steps": on_docstrings(
        training__steps=1500, model__width=16, evaluation__every=100, training__lr=5e-3
    ),
}


def codes_of(name: str, values: dict[str, Any]) -> list[str]:
    out = Path("runs") / "".join(sign if sign.isalnum() else "-" for sign in name)
    with contextlib.suppress(Diverged):
        gf.train(values, out=out, allow_leaks="not causal" in name, recheck=False, threads=1)
    return [one.code for one in diagnosis_of(RunDirectory(out))]


def main(folder: Path, wanted: list[str], file: Path | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    write_data()
    runs = {name: (values, want) for name, (values, want) in PLANTED.items()} | {
        name: (one, set()) for name, one in SOUND.items()
    }
    found = {name: codes_of(name, values) for name, (values, _) in runs.items() if not wanted or name in wanted}
    for name, codes in found.items():
        print(f"{'planted' if name in PLANTED else 'sound':8} {name:34} {', '.join(codes) or '-'}", flush=True)
    planted = {name: set(codes) for name, codes in found.items() if name in PLANTED}
    right = sum(bool(codes & PLANTED[name][1]) for name, codes in planted.items())
    warned = [name for name, codes in found.items() if name in SOUND and set(codes) - {"still-learning"}]
    noted = [name for name, codes in found.items() if name in SOUND and codes == ["still-learning"]]
    print(f"{right} of {len(planted)} planted faults got their code; of {len(found) - len(planted)} sound runs {len(warned)}")
    print(f"got a warning ({', '.join(warned) or '-'}) and {len(noted)} the note still-learning ({', '.join(noted) or '-'}).")
    if file is not None:
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    main(given.folder.resolve(), given.names, None if given.json is None else given.json.resolve())
