"""Thirteen runs with a planted fault and twelve sound ones: recipes that train in seconds, each with the codes it must get.

``python -m tests.runs.planted_runs FOLDER`` trains them all and writes their records to tests/runs/curves.json, on which the
quick tests run the rules.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

KEYS, PREFIXES = ("step", "loss"), ("validation_", "train_")
CURVES = Path(__file__).with_name("curves.json")
LEAK = '''
import torch
from glassformer.model.attention import split_heads
from glassformer.model.slots import MIXERS, Mixer, MixerConfig

@MIXERS.variant("next_token_reader")
class NextTokenReaderConfig(MixerConfig):
    """Hands each position the vector after it: a leak, planted."""
    def build(self, dims):
        return NextTokenReader(dims.heads)
    def flops(self, dims, batch, length):
        return 0

class NextTokenReader(Mixer):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads
    def forward(self, x, attention_context, positions, cache):
        return split_heads(torch.nn.functional.pad(x[:, 1:], (0, 0, 0, 1)), self.heads)
'''


def markov_text(seed: int, documents: int, *, sharp: float = 6.0, letters: str = "abcdefghij") -> list[str]:
    """Lines of letters, each drawn given the one before it: their entropy is what no model can go below."""
    draw, size = np.random.default_rng(seed), len(letters)
    table = np.random.default_rng(99).gumbel(size=(size, size)) * sharp / 3
    shares = np.exp(table - table.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    lines = []
    for _ in range(documents):
        line = [draw.integers(0, size)]
        for _ in range(39):
            line.append(draw.choice(size, p=shares[line[-1]]))
        lines.append("".join(letters[at] for at in line))
    return lines


def reviews(seed: int, count: int, *, noise: float = 0.1, random: bool = False) -> list[str]:
    """``label<TAB>text``: some words speak for a label, and some labels are wrong."""
    draw = np.random.default_rng(seed)
    words = {"good": ["fine", "warm", "bright"], "bad": ["dull", "cold", "grey"]}
    filler = ["the", "film", "was", "and", "then", "it", "ended", "with", "a", "song"]
    rows = ["label\ttext"]
    for _ in range(count):
        label = ("good", "bad")[draw.integers(2)]
        text = [*draw.choice(filler, 5), *draw.choice(words[label], 2)]
        draw.shuffle(text)
        shown = ("good", "bad")[draw.integers(2)] if random or draw.random() < noise else label
        rows.append(f"{shown}\t{' '.join(text)}")
    return rows


def write_data(folder: Path) -> None:
    sound, other = markov_text(1, 900), markov_text(2, 200)
    files = {
        "text.txt": sound,
        "other.txt": other,
        "twice.txt": other * 2,
        "few.txt": markov_text(3, 12, sharp=0.5),
        "constant.txt": ["a" * 6000],
        "reviews.tsv": reviews(1, 700),
        "random.tsv": reviews(2, 90, random=True),
        "words.txt": [" ".join(line[at : at + 2] for at in range(0, 40, 2)) for line in sound],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "leak.py").write_text(LEAK, encoding="utf-8")


def recipe(file: str, **changes: Any) -> dict[str, Any]:
    """A small model of a file; ``changes``: dotted keys with two underscores for the dot."""
    labels = file.endswith(".tsv")
    data = {"path": file, "text_column": "text", "label_column": "label"} if labels else {"path": file, "document": "line"}
    found: dict[str, Any] = {
        "data": {**data, "split": {"validation": 0.2}},
        "tokenizer": {"kind": "word", "min_count": 1} if labels or "words" in file else {"kind": "char"},
        "model": {"width": 32, "heads": 2, "layers": 1, "context": 32, "dropout": 0.0},
        "training": {"steps": 300, "batch_size": 16, "lr": 3e-3, "schedule": {"kind": "cosine", "warmup": 20}, "device": "cpu"},
        "evaluation": {"every": 20},
        "checkpoint": {"every": 300},
        "seed": 1,
    }
    if labels:
        found["objective"] = "labels"
        found["model"] |= {"causal": False, "head": "classifier"}
    for key, value in changes.items():
        section, _, name = key.partition("__")
        if name:
            found[section] = {**found.get(section, {}), name: value}
        else:
            found[section] = value
    return found


HOT = {"training__optimizer": "sgd", "training__clip": None, "training__schedule": "constant"}
PLANTED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "rate too low": (recipe("text.txt", training__lr=1e-7), {"flat"}),
    "rate too low, labels": (recipe("reviews.tsv", training__lr=1e-7), {"flat"}),
    "no step to speak of": (recipe("text.txt", training__lr=1e-6, training__optimizer="sgd"), {"flat"}),
    "constant text": (recipe("constant.txt"), {"constant-data"}),
    "rate far too high": (recipe("text.txt", training__lr=30.0, **HOT), {"diverged"}),
    "rate too high": (recipe("text.txt", training__lr=1.0, training__schedule="constant"), {"unstable"}),
    "rate too high, labels": (recipe("reviews.tsv", training__lr=1.0, training__schedule="constant"), {"one-class"}),
    "twelve lines": (recipe("few.txt", model__width=64, training__lr=5e-3, training__schedule="constant"), {"overfitting"}),
    "random labels": (recipe("random.tsv", training__lr=1e-2, training__schedule="constant"), {"overfitting"}),
    "reads the next token": (recipe("text.txt", model__mixer="next_token_reader"), {"too-good"}),
    "validation is training": (recipe("other.txt", data__validation="other.txt"), {"same-text"}),
    "every line twice": (recipe("twice.txt"), {"same-text"}),
    "stopped early": (
        recipe("text.txt", training__steps=40, training__lr=1e-3, training__schedule="constant", evaluation__every=4),
        {"still-learning"},
    ),
}
SOUND: dict[str, dict[str, Any]] = {
    "plain": recipe("text.txt"),
    "another seed": recipe("text.txt", seed=2),
    "rotary": recipe("text.txt", model__positions="rotary"),
    "alibi": recipe("text.txt", model__positions="alibi"),
    "two layers": recipe("text.txt", model__layers=2),
    "norm after the sum": recipe("text.txt", model__block="post"),
    "dropout": recipe("text.txt", model__dropout=0.1),
    "muon": recipe("text.txt", training__optimizer="muon", training__lr=1e-2),
    "words": recipe("words.txt"),
    "labels": recipe("reviews.tsv"),
    "labels, another seed": recipe("reviews.tsv", seed=2),
    "labels, two layers and dropout": recipe("reviews.tsv", model__layers=2, model__dropout=0.2),
}


def train_all(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Trains the named runs in ``folder``; gives their codes and facts."""
    import os

    import glassformer as gf
    from glassformer.foundation.errors import Diverged
    from glassformer.runs.diagnosis import diagnosis_of
    from glassformer.runs.directory import RunDirectory

    write_data(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        found = {}
        for name in names:
            recipe_, leaks = (PLANTED[name][0], name == "reads the next token") if name in PLANTED else (SOUND[name], False)
            out = folder / "runs" / name.replace(" ", "-").replace(",", "")
            with contextlib.suppress(Diverged):
                gf.train(recipe_, out=out, plugins=["leak.py"] if leaks else (), allow_leaks=leaks, recheck=False, threads=1)
            findings = diagnosis_of(RunDirectory(out))
            found[name] = {"codes": [one.code for one in findings], "said": [str(one) for one in findings], "folder": out}
    finally:
        os.chdir(before)
    return found


def main(folder: Path) -> None:
    from glassformer.runs.directory import RunDirectory
    from glassformer.runs.records import MetricsLog

    document = {}
    for name, one in train_all(folder, [*PLANTED, *SOUND]).items():
        print(f"{name}: {one['codes']}", *one["said"], sep="\n    ", flush=True)
        run = RunDirectory(one["folder"])
        environment, state = run.read_environment(), run.read_state()
        kept = [
            {
                key: round(value, 4) if isinstance(value, float) else value
                for key, value in row.items()
                if key in KEYS or key.startswith(PREFIXES)
            }
            for row in MetricsLog(run.metrics_file).read()
            if "loss" not in row or row["step"] % 3 == 1 or not np.isfinite(row["loss"])
        ]
        facts = {key: environment.get(key) for key in ("metric", "num_outputs", "overlap", "tainted")}
        document[name] = {
            "facts": {
                **facts,
                "status": state["status"],
                "reason": state.get("reason", ""),
                "baselines": state.get("baselines", {}),
            },
            "records": [
                {
                    key: str(value) if isinstance(value, float) and not np.isfinite(value) else value
                    for key, value in row.items()
                }
                for row in kept
            ],
        }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one, separators=(',', ':'))}" for name, one in document.items())
    CURVES.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
