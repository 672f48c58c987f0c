"""Trains the two small models of docs/look.md and draws its pictures: `python docs/make_look.py FOLDER [--pictures-only]`.

A decoder of two layers on repeated letters, in which an induction head forms, with a film; an encoder that labels lines.
With `--seeds 6` it trains the decoder with seeds 0 to 5 instead and says how well an induction head formed in each.
Prints the figures that the page states. Some minutes on two cores.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

import glassformer as gf
from glassformer.evaluation.interval_estimates import mean
from glassformer.figures.attention import scale
from glassformer.figures.save import save_figure
from glassformer.figures.style import INK, new_axes, styled
from glassformer.lens.page import render
from glassformer.runs.checkpoint import moments

PICTURES = Path(__file__).parent / "pictures"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
REPEATED = "kxqzvbmwkxqzvbmwkxqz"
REVIEW = "the film was good , the end was long"


def draw_table(table_LH: np.ndarray, *, title: str) -> Figure:
    """One number from 0 to 1 for each head, as a coloured table with the numbers in it."""
    layers, heads = table_LH.shape
    with styled():
        figure, axes = new_axes(0.62 * heads + 1.8, 0.45 * layers + 1.3)
        axes.imshow(table_LH, cmap=scale(), norm=Normalize(0, 1), aspect="auto")
        for (layer, head), value in np.ndenumerate(table_LH):
            colour = "white" if value > 0.6 else INK
            axes.text(head, layer, f"{value:.2f}", ha="center", va="center", fontsize=8, color=colour)
        axes.set(xticks=range(heads), yticks=range(layers), xlabel="head", ylabel="layer", title=title)
        axes.grid(False)
        return figure


def write_repeated(file: Path, lines: int = 6000) -> None:
    """Each line is a random stretch of 5 to 16 letters, again and again."""
    draw = random.Random(0)
    stretches = ["".join(draw.choice(LETTERS) for _ in range(draw.randint(5, 16))) for _ in range(lines)]
    file.write_text("".join((stretch * 13)[:64] + "\n" for stretch in stretches), encoding="utf-8")


def write_reviews(file: Path, lines: int = 1200) -> None:
    """Nine words or so, one of which says what the label is."""
    draw = random.Random(1)
    words = ["the", "film", "was", "long", ",", "the", "end", "was", "near", "and", "a", "cat", "sat", "on", "it"]
    rows = []
    for _ in range(lines):
        label = draw.choice(["praise", "blame"])
        line = [draw.choice(words) for _ in range(draw.randint(6, 10))]
        line[draw.randrange(len(line))] = "good" if label == "praise" else "bad"
        rows.append(f"{label}\t{' '.join(line)}")
    file.write_text("label\ttext\n" + "\n".join(rows) + "\n", encoding="utf-8")


def train_induction(folder: Path, *, seed: int, out: Path) -> gf.Run:
    return gf.train(
        {
            "data": {"path": str(folder / "repeated.txt"), "document": "line", "split": {"validation": 0.02, "test": 0.02}},
            "tokenizer": {"kind": "char"},
            "model": {"width": 64, "heads": 4, "layers": 2, "context": 64, "positions": "alibi"},
            "training": {"steps": 800, "batch_size": 32, "lr": 0.003, "schedule": "constant", "device": "cpu"},
            "evaluation": {"every": 200},
            "checkpoint": {"film": 14},
            "seed": seed,
        },
        out=out,
    )


def best_of_seeds(folder: Path, seeds: int) -> None:
    """The best induction score after training, by seed, and the first snapshot in which it is above one half."""
    folder.mkdir(parents=True, exist_ok=True)
    write_repeated(folder / "repeated.txt")
    scores = []
    for seed in range(seeds):
        run = train_induction(folder, seed=seed, out=folder / f"induction-{seed}")
        by_step = {
            step: max(row["induction"] for row in run.look(REPEATED, checkpoint=step).head_table())
            for step in moments(run.directory)
        }
        scores.append(list(by_step.values())[-1])
        stands = next((step for step, score in by_step.items() if score > 0.5), None)
        print(f"seed {seed}: {scores[-1]:.4f}, above one half from step {stands}; {by_step}", flush=True)
    print(mean(np.asarray(scores)), flush=True)


def train(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_repeated(folder / "repeated.txt")
    write_reviews(folder / "reviews.tsv")
    train_induction(folder, seed=1, out=folder / "induction")
    gf.train(
        {
            "data": {"path": str(folder / "reviews.tsv"), "label_column": "label", "text_column": "text"},
            "tokenizer": {"kind": "word"},
            "model": {
                "width": 32,
                "heads": 2,
                "layers": 2,
                "context": 16,
                "causal": False,
                "head": {"kind": "classifier", "hidden": []},
            },
            "objective": "labels",
            "training": {"steps": 150, "batch_size": 32, "lr": 0.003, "device": "cpu"},
            "seed": 1,
        },
        out=folder / "reviews",
    )


def draw(folder: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    run, labels = gf.load(folder / "induction"), gf.load(folder / "reviews")
    film = [run.look(REPEATED, checkpoint=step) for step in moments(run.directory)]
    for look in film:
        best = max(look.head_table(), key=lambda row: row["induction"])
        print(f"{look.name}: head {best['layer']}.{best['head']} has induction {best['induction']:.3f}")
    last = film[-1]
    best = max(last.head_table(), key=lambda row: row["induction"])
    layer, head = best["layer"], best["head"]
    print(f"losses of the second reading on: {last.losses[9:].mean():.2f} nats, of the first: {last.losses[1:8].mean():.2f}")
    print(f"last layer, rise of the loss without each head: {last.effects(how='zero').by_text[..., 0].round(2).tolist()}")
    save_figure(last.figure(layer, head), PICTURES / "look-induction.png", dpi=90)
    untrained = run.look(REPEATED, checkpoint="untrained")
    save_figure(untrained.figure(layer, head), PICTURES / "look-induction-untrained.png", dpi=90)
    save_figure(draw_table(last.head_scores.induction, title="induction score"), PICTURES / "look-scores.png", dpi=90)
    pair = [labels.look(REVIEW, checkpoint=which) for which in ("untrained", "last")]
    for look in pair:
        save_figure(look.figure(), PICTURES / f"look-encoder-{look.name}.png", dpi=80)
        print(f"encoder, {look.name}: {look.faults or 'rows sum to one'}")
    pages = {"look-film": (film, "film"), "look-compare": ([untrained, last], "compare"), "look-encoder": (pair, "compare")}
    for name, (looks, kind) in pages.items():
        (folder / f"{name}.html").write_text(
            render(looks, title="An induction head" if kind == "film" else "Before and after", kind=kind)
        )
    photograph(folder, layer, head)


def photograph(folder: Path, layer: int, head: int) -> None:
    """The pages as a browser shows them."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, width, height, scheme in (
            ("look-film", 1280, 900, "light"),
            ("look-compare", 1280, 860, "dark"),
            ("look-compare", 390, 1500, "light"),
        ):
            tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            tab.goto((folder / f"{name}.html").absolute().as_uri())
            tab.wait_for_selector("[data-ready=yes]")
            tab.get_by_role("button", name=f"layer {layer}, head {head}", exact=True).click()
            tab.locator(".panel").last.get_by_role("group", name="is read by").locator(".token").nth(12).hover()
            tab.locator(".strip").last.locator(".token").nth(12).hover()
            tab.evaluate("scrollTo(0, 0)")
            tab.screenshot(path=PICTURES / f"{name}-{width}.png")
        browser.close()


if __name__ == "__main__":
    home = Path(sys.argv[1])
    if "--seeds" in sys.argv:
        best_of_seeds(home, int(sys.argv[sys.argv.index("--seeds") + 1]))
        sys.exit()
    if "--pictures-only" not in sys.argv:
        train(home)
    draw(home)
