"""The diagnosis on runs that its rules were not made from: four batches of planted faults and sound runs, seconds of CPU each.

    python bench/diagnosis.py FOLDER [NAME]... [--batch first|second|third|fourth] [--json FILE]

The first batch (14 and 12) was used to mend rules. The second (12 and 12), the third and the fourth (6 and 6 each) were written
down before any of their runs was made. The second and third read real text: tinyshakespeare, sst2 and speeches, then multi30k,
wikitext-2, names and Python's own source, under GLASSFORMER_DATA; the fourth is made here, but for some Shakespeare.

Prints what each run got, and at the end how many faults got their code and how many sound runs a warning. Rules and the runs
that they were made from: src/glassformer/runs/diagnosis.py, tests/runs/planted_runs.py.
"""

from __future__ import annotations

import argparse
import calendar
import contextlib
import json
import json.decoder
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.runs.planted_runs import markov_text, recipe  # noqa: E402

import glassformer as gf  # noqa: E402
from glassformer.foundation.errors import Diverged  # noqa: E402
from glassformer.model.network import MODELS, NetworkConfig  # noqa: E402
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


def of_set(name: str, **changes: Any) -> dict[str, Any]:
    """A decoder of one of the real texts, with other parts than the first batch."""
    parts = {"model__positions": "rotary", "model__feedforward": "gated", **changes}
    return recipe("second.txt", **parts) | {"data": {"set": name}}


def of_table(file: str, objective: str, **changes: Any) -> dict[str, Any]:
    """An encoder of a table; ``changes`` as for ``recipe``."""
    return recipe(file, objective=objective, **changes)


def write_second() -> None:
    """Tables and texts of the second batch. Real sentences where there are some."""
    draw = np.random.default_rng(17)
    root = Path(os.environ.get("GLASSFORMER_DATA", "."))
    reviews = [line.split(" ", 1) for line in (root / "sst2" / "train.txt").read_text(encoding="utf-8").splitlines()]
    speeches = [
        line.split("\t") for line in (root / "speeches" / "train_classify.tsv").read_text(encoding="utf-8").splitlines()
    ]
    plays = (root / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    words, weights = [f"w{at}" for at in range(30)], draw.normal(size=30)

    def table(rows: list[tuple[str, str]]) -> list[str]:
        return ["label\ttext", *(f"{label}\t{text}" for label, text in rows)]

    def number(chosen: np.ndarray) -> float:
        return float(weights[chosen].sum() + 0.3 * draw.normal())

    drawn = [draw.integers(0, 30, 6) for _ in range(900)]
    counted = [(f"{number(chosen):.2f}", " ".join(words[at] for at in chosen)) for chosen in drawn]
    several = [(";".join(sorted({"abc"[at % 3] for at in chosen[:2]})), text) for chosen, (_, text) in zip(drawn, counted)]
    names = [f"{one} {two}" for one in ("Ann", "Bob", "Cyd", "Dan", "Eve") for two in ("Moss", "Hall", "Reed", "Park")]
    letter = "Dear {}, your parcel {} has left our house in Elm Road and will reach you on day {} of this month. Kind regards."
    uneven = [(label, text) for label, text in speeches if label == "0" or draw.random() < 0.3]
    files = {
        "shifted.tsv": table([(reviews[at - 1][0], reviews[at][1]) for at in range(1, 201)]),
        "reviews.tsv": table([(label, text) for label, text in reviews[:400]]),
        "same.tsv": table([("no", text) for _, text in reviews[:800]] + [("yes", reviews[801][1])]),
        "counted.tsv": table(counted),
        "several.tsv": table(several),
        "uneven.tsv": table([uneven[at] for at in draw.permutation(len(uneven))[:900]]),
        "act.txt": [line for line in plays[:20_000].splitlines() if line],
        "letters.txt": [letter.format(draw.choice(names), draw.integers(1000, 9999), draw.integers(1, 29)) for _ in range(700)],
        "packed.txt": ["".join(draw.choice(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ+/0123456789"), 60)) for _ in range(700)],
    }
    for name, lines in files.items():
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


BROKEN = {"diverged", "worse-than-uniform", "unstable", "flat", "one-class"}
PLANTED_2: dict[str, tuple[dict[str, Any], set[str]]] = {
    "Shakespeare, Muon at 30": (of_set("tinyshakespeare", training__optimizer="muon", training__lr=30.0, **CONSTANT), BROKEN),
    "Shakespeare, SGD at 1e-4": (of_set("tinyshakespeare", training__optimizer="sgd", training__lr=1e-4), {"flat"}),
    "twenty kilobytes of Shakespeare": (
        recipe("act.txt", model__width=96, model__layers=2, training__steps=900, evaluation__every=60, **CONSTANT),
        {"overfitting"},
    ),
    "labels of the line before": (
        of_table("shifted.tsv", "labels", model__layers=2, training__steps=400, **CONSTANT),
        {"overfitting", "flat"},
    ),
    "reviews validated on themselves": (of_table("reviews.tsv", "labels", data__validation="reviews.tsv"), {"same-text"}),
    "one label but for one text": (of_table("same.tsv", "labels"), {"constant-data"}),
    "numbers, rate 1e-8": (of_table("counted.tsv", "regression", training__lr=1e-8), {"flat"}),
    "several labels, AdamW at 3": (of_table("several.tsv", "multilabel", training__lr=3.0, **CONSTANT), BROKEN),
    "random letters": (recipe("packed.txt"), {"flat"}),
    "a form letter 700 times": (recipe("letters.txt", training__steps=900, evaluation__every=60), {"too-good", "same-text"}),
    "weight decay 1000": (of_set("tinyshakespeare", training__weight_decay=1000.0, training__lr=1e-2), BROKEN),
    "words, 40 steps": (
        of_set("speeches", tokenizer={"kind": "word", "min_count": 2}, training__steps=40, evaluation__every=4, **CONSTANT),
        {"still-learning"},
    ),
}
SOUND_2: dict[str, dict[str, Any]] = {
    "Shakespeare, characters": of_set("tinyshakespeare", training__steps=900, evaluation__every=60),
    "Shakespeare, schedule-free": of_set("tinyshakespeare", training__optimizer="schedule_free", **CONSTANT),
    "Shakespeare, mean of weights": of_set("tinyshakespeare", training__average="ema"),
    "Shakespeare, Mamba-2": of_set("tinyshakespeare", model__mixer="mamba2", model__positions="learned"),
    "speeches, words": of_set("speeches", tokenizer={"kind": "word", "min_count": 2}, training__label_smoothing=0.1),
    "speeches, T5 spans": of_set("speeches", tokenizer={"kind": "word", "min_count": 2}, objective={"kind": "spans"}),
    "numbers": of_table("counted.tsv", "regression"),
    "several labels": of_table("several.tsv", "multilabel"),
    "uneven classes": of_table("uneven.tsv", "labels", training__lr=1e-3, training__steps=200, model__dropout=0.3),
    "balanced classes": of_table(
        "uneven.tsv", "labels", training__lr=1e-3, training__steps=200, model__dropout=0.3, data__class_weights="balanced"
    ),
    "reviews, twelve texts a step": of_table("reviews.tsv", "labels", training__batch_size=12, training__steps=60),
    "numbers in words": on_pairs(training__steps=900, evaluation__every=60),
}


def write_third() -> None:
    """Captions in two languages, articles, reviews with one opening, sentences about people, source code."""
    draw, root = np.random.default_rng(23), Path(os.environ.get("GLASSFORMER_DATA", "."))

    def lines_of(name: str) -> list[str]:
        return (root / name).read_text(encoding="utf-8").splitlines()

    german, english = (lines_of(f"multi30k/train.{language}") for language in ("de", "en"))
    wrong = [german[at] for at in draw.permutation(3000)]
    reviews = [line.split(" ", 1) for line in lines_of("sst2/train.txt")[2000:5000]]
    opening = "the following is one sentence of a review of a film that somebody has seen :"
    speeches = [line.split("\t") for line in lines_of("speeches/train_classify.tsv")]
    articles = [line for line in lines_of("wikitext-2/valid.txt") if len(line) > 80]
    files = {
        "captions.tsv": ["source\ttarget", *(f"{one}\t{two}" for one, two in zip(german[:3000], english))],
        "mixed.tsv": ["source\ttarget", *(f"{one}\t{two}" for one, two in zip(wrong, english))],
        "few.tsv": ["source\ttarget", *(f"{one}\t{two}" for one, two in zip(german[:250], english))],
        "opening.tsv": ["label\ttext", *(f"{label}\t{opening} {text}" for label, text in reviews[:1200])],
        "reviews3.tsv": ["label\ttext", *(f"{label}\t{text}" for label, text in reviews)],
        "letters.tsv": ["label\ttext", *(f"{label}\t{text}" for label, text in speeches)],
        "articles.txt": articles[:900],
        "held.txt": articles[900:1000],
        "holding.txt": [*articles[:500], *articles[900:1000]],
        "people.txt": lines_of("names/wiki.txt"),
        "source.txt": [Path(module.__file__).read_text(encoding="utf-8") for module in (argparse, json.decoder, contextlib)],
    }
    for name, lines in files.items():
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def of_pairs(file: str, **changes: Any) -> dict[str, Any]:
    """An encoder-decoder of captions, German to English."""
    found = on_pairs(tokenizer={"kind": "bpe", "vocab": 800}, **{"training__steps": 400, "evaluation__every": 40, **changes})
    return found | {
        "data": {"path": file, "split": {"validation": 0.15}},
        "model": found["model"] | {"width": 48, "context": 64},
    }


BPE = {"tokenizer": {"kind": "bpe", "vocab": 500}}
PLANTED_3: dict[str, tuple[dict[str, Any], set[str]]] = {
    "captions, rate 1e-7": (of_pairs("captions.tsv", training__lr=1e-7), {"flat"}),
    "captions beside wrong translations": (of_pairs("mixed.tsv"), {"flat", "overfitting"}),
    "250 captions, 200 epochs": (
        of_pairs("few.tsv", training__batch_size=64, training__steps=600, **CONSTANT),
        {"overfitting"},
    ),
    "reviews cut after a common opening": (of_table("opening.tsv", "labels", model__context=12), {"flat", "one-class"}),
    "articles, validation among the training text": (
        recipe("holding.txt", data={"path": "holding.txt", "validation": "held.txt", "document": "line"}, **BPE),
        {"same-text"},
    ),
    "articles, eight layers, post-norm, AdamW at 0.1": (
        recipe("articles.txt", **BPE, model__layers=8, model__block="post", training__lr=0.1, **CONSTANT),
        BROKEN,
    ),
}
SOUND_3: dict[str, dict[str, Any]] = {
    "captions": of_pairs("captions.tsv", training__steps=800, evaluation__every=80),
    "articles, BPE": recipe("articles.txt", **BPE, model__width=48, model__layers=2, model__positions="rotary"),
    "3,000 reviews, two epochs": of_table("reviews3.tsv", "labels", training__steps=300, training__lr=1e-3, model__dropout=0.2),
    "presidents by letters": of_table("letters.tsv", "labels", tokenizer={"kind": "char"}, model__context=128),
    "people, masked": recipe("people.txt", **MASKED, model__context=64, training__steps=900, evaluation__every=60),
    "source code as a text of one's own": recipe("source.txt", data={"path": "source.txt"}, model__context=64),
}


class LetterShares(torch.nn.Module):
    """Reads nothing: the same scores at every place."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(torch.zeros(vocabulary))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.scores.expand(*ids.shape, -1)


@MODELS.variant("letter_shares")
class LetterSharesConfig(NetworkConfig):
    """A network whose input is never used, planted."""

    def build(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> torch.nn.Module:
        return LetterShares(outputs or vocabulary)


class Recurrent(torch.nn.Module):
    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, width)
        self.gru = torch.nn.GRU(width, width, batch_first=True)
        self.scores = torch.nn.Linear(width, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.scores(self.gru(self.embed(ids))[0])


@MODELS.variant("recurrent")
class RecurrentConfig(NetworkConfig):
    """A GRU that predicts the next token (Cho et al. 2014)."""

    width: int = 64

    def build(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> torch.nn.Module:
        return Recurrent(outputs or vocabulary, self.width)


def write_fourth() -> None:
    """Reviews of made-up goods, tables of numbers, dates in two forms, plays, a chain of letters."""
    draw, root = np.random.default_rng(31), Path(os.environ.get("GLASSFORMER_DATA", "."))
    plays = (root / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    goods, says = (
        ["lamp", "chair", "kettle", "coat"],
        {"up": ["solid", "neat"], "so": ["plain", "usual"], "no": ["broken", "late"]},
    )

    def review(label: str, *, of: list[str] = goods) -> str:
        what, one, other = draw.choice(of), draw.choice(says[label]), draw.choice(says[label])
        return f"the {what} came {one} and {other} on day {draw.integers(1, 29)}"

    labels = [str(one) for one in draw.choice(list(says), 600)]
    reviews = [review(label) for label in labels]
    kinds = {"lamp": "light", "chair": "seat", "kettle": "kitchen", "coat": "cloth"}
    chosen = [str(one) for one in draw.choice(goods, 2000)]
    named = [str(draw.choice(list(kinds.values()))) if draw.random() < 0.1 else kinds[one] for one in chosen]
    words = [" ".join(draw.choice(["good", "bad", "so", "and", "then", "it", "was"], 8)) for _ in range(900)]
    points = [text.split().count("good") - text.split().count("bad") + 0.3 * draw.normal() for text in words]
    days = sorted({(int(draw.integers(1900, 2030)), int(draw.integers(12)), int(draw.integers(1, 29))) for _ in range(3000)})
    days = [days[at] for at in draw.permutation(len(days))]
    dates = [f"{year}-{month + 1:02}-{day:02}" for year, month, day in days]
    spoken = [f"{day} {calendar.month_name[month + 1]} {year}" for year, month, day in days]
    files = {
        "nothing.tsv": ["label\ttext", *(f"{label}\t{text}" for label, text in zip(draw.permutation(labels), reviews))],
        "goods.tsv": ["label\ttext", *(f"{label}\t{review('so', of=[one])}" for label, one in zip(named, chosen))],
        "coded.tsv": [
            "label\ttext",
            *(f"{-999999 if at % 100 == 7 else point:.2f}\t{text}" for at, (point, text) in enumerate(zip(points, words))),
        ],
        "points.tsv": ["label\ttext", *(f"{point:.2f}\t{text}" for point, text in zip(points, words))],
        "slipped.tsv": ["source\ttarget", *(f"{one}\t{two}" for one, two in zip(dates[1:], spoken))],
        "dates.tsv": ["source\ttarget", *(f"{one}\t{two}" for one, two in zip(dates, spoken))],
        "pasted.txt": [plays[:60_000] * 2],
        "plays.txt": [plays[:200_000]],
        "chain.txt": markov_text(41, 2000, sharp=4.0, letters="mnopqrstuvwx"),
    }
    for name, lines in files.items():
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def of_world(**changes: Any) -> dict[str, Any]:
    """The built-in register, of sixty people."""
    return {
        "base": "world-mixed",
        "data.set.people": 60,
        "training.steps": 600,
        "evaluation.every": 60,
        **changes,
    }


def of_play(file: str, **model: Any) -> dict[str, Any]:
    """One text without lines of its own; ``model``: a network instead of the Transformer."""
    found = recipe(file, data={"path": file}, training__steps=900, evaluation__every=60)
    return found | ({"model": {"context": 64, **model}} if model else {})


def of_dates(file: str) -> dict[str, Any]:
    found = of_pairs(file, training__steps=900, evaluation__every=60)
    return found | {"tokenizer": {"kind": "char"}, "model": found["model"] | {"width": 64, "context": 32}}


PLANTED_4: dict[str, tuple[dict[str, Any], set[str]]] = {
    "reviews with shuffled labels": (
        of_table("nothing.tsv", "labels", training__steps=400, training__lr=1e-2, **CONSTANT),
        {"overfitting", "flat"},
    ),
    "people, rate 1": (of_world(**{"training.lr": 1.0, "training.schedule": "constant"}), BROKEN),
    "dates slipped by one line": (of_dates("slipped.tsv"), {"flat", "overfitting"}),
    "a play pasted twice": (of_play("pasted.txt"), {"same-text"}),
    "a network that reads nothing": (of_play("plays.txt", kind="letter_shares"), {"flat"}),
    "numbers with -999999 for unknown": (of_table("coded.tsv", "regression"), {"flat", "constant-data"}),
}
SOUND_4: dict[str, dict[str, Any]] = {
    "goods, a tenth mislabelled": of_table("goods.tsv", "labels", training__steps=200, training__lr=1e-3),
    "good minus bad": of_table("points.tsv", "regression"),
    "dates": of_dates("dates.tsv"),
    "people": of_world(),
    "a GRU of plays": of_play("plays.txt", kind="recurrent"),
    "a chain of letters": recipe("chain.txt", training__steps=900, evaluation__every=60),
}
BATCHES = {
    "first": (PLANTED, SOUND, write_data),
    "second": (PLANTED_2, SOUND_2, write_second),
    "third": (PLANTED_3, SOUND_3, write_third),
    "fourth": (PLANTED_4, SOUND_4, write_fourth),
}


def codes_of(name: str, values: dict[str, Any]) -> list[str]:
    out = Path("runs") / "".join(sign if sign.isalnum() else "-" for sign in name)
    base, changes = (
        (values["base"], {key: one for key, one in values.items() if key != "base"}) if "base" in values else (values, {})
    )
    with contextlib.suppress(Diverged):
        gf.train(base, set=changes, out=out, allow_leaks="not causal" in name, recheck=False, threads=1)
    return [one.code if one.tone == "warning" else f"{one.code} (note)" for one in diagnosis_of(RunDirectory(out))]


def main(folder: Path, wanted: list[str], batch: str, file: Path | None) -> None:
    faults, sound, write = BATCHES[batch]
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    write()
    found: dict[str, list[str]] = {}
    for name, values in ({name: values for name, (values, _) in faults.items()} | sound).items():
        if not wanted or name in wanted:
            found[name] = codes_of(name, values)
            print(f"{'planted' if name in faults else 'sound':8} {name:34} {', '.join(found[name]) or '-'}", flush=True)
    planted = {name: {code.split(" ")[0] for code in codes} for name, codes in found.items() if name in faults}
    right = sum(bool(codes & faults[name][1]) for name, codes in planted.items())
    warned = [name for name, codes in found.items() if name in sound and any("(note)" not in code for code in codes)]
    noted = [name for name, codes in found.items() if name in sound and codes and name not in warned]
    print(f"{right} of {len(planted)} planted faults got their code; of {len(found) - len(planted)} sound runs {len(warned)}")
    print(f"got a warning ({', '.join(warned) or '-'}) and {len(noted)} only a note ({', '.join(noted) or '-'}).")
    if file is not None:
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--batch", choices=list(BATCHES), default="first")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    main(given.folder.resolve(), given.names, given.batch, None if given.json is None else given.json.resolve())
