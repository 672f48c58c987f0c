"""Runs of one recipe of labels that differ in their seeds, and labelled texts -> verdicts against the bags of words.

    python bench/against_bags.py RUN RUN ... --on test:dev --on FILE.tsv [--json]

The bags are those that the runs keep: fitted on the very texts the runs trained on, asked about the very same texts. Each
set is judged whole, and apart by whether a text stands word for word in the training texts. A difference has the interval of
seeds crossed with texts, and its p is Holm's over the bags; McNemar is given for each seed (two checkpoints say little about
other seeds).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import glassformer as gf
from glassformer.assembly import tools_for
from glassformer.data.data_kinds import data_kind
from glassformer.evaluation.interval_estimates import TwoCheckpoints, wilson
from glassformer.study.statistics.corrections import holm
from glassformer.study.statistics.two_way import TwoWayEffects, two_way_effects

BAGS = ("bag of words", "word pairs")
MARGIN = 0.01


def right_by(runs: list[Any], place: str) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """(model [S, N], bags by name [S, N], whether each text was trained on [N]): 1 where the label is right."""
    model: list[np.ndarray] = []
    bags: dict[str, list[np.ndarray]] = {name: [] for name in BAGS}
    known = {text for run in runs for text in run.data.split("train").texts}
    for run in runs:
        tools, of_file = tools_for(run.recipe, run.tokenizer), Path(place).is_file()
        record = run.directory.read_environment()["data"]
        items = data_kind("labels").of_file(run.tokenizer, place, run.recipe.data, record=record) if of_file else None
        found = run.evaluate(data=place) if of_file else run.evaluate(place)
        items = run.data.split(place) if items is None else items
        model.append(found.outcomes.units["accuracy"].sums)
        for name in BAGS:
            bags[name].append(run.baselines()[name].evaluate(items, tools).units["accuracy"].sums)
    seen_N = np.array([text in known for text in items.texts])
    return np.stack(model), {name: np.stack(rows) for name, rows in bags.items()}, seen_N


def verdict(model_SN: np.ndarray, bag_SN: np.ndarray, effects: TwoWayEffects, p: float) -> dict[str, Any]:
    """The model against one bag; ``p`` is corrected for the other bags. Fewer than 6 seeds decide nothing."""
    difference = effects.estimate()
    enough = len(model_SN) >= 6
    same = enough and float(effects.p_same(MARGIN, answers=True)) <= 0.05
    word = "same" if same else ("better" if difference.value > 0 else "worse") if enough and p <= 0.05 else "not decided"
    pairs = [TwoCheckpoints.of(one, other) for one, other in zip(model_SN, bag_SN)]
    return {
        "bag": float(bag_SN.mean()),
        "difference": [difference.value, difference.low, difference.high],
        "p": p,
        "verdict": word,
        "mcnemar": [round(pair.p, 4) for pair in pairs],
        "only_model_only_bag": [[pair.only_first, pair.only_second] for pair in pairs],
    }


def judged(name: str, model_SN: np.ndarray, bags: dict[str, np.ndarray], chosen_N: np.ndarray) -> dict[str, Any]:
    """One part of a set: the model's mean over seeds with its interval (seeds crossed with texts), and each bag."""
    own = model_SN[:, chosen_N]
    mean = two_way_effects(own).estimate()
    one = [wilson(int(row.sum()), len(row)).value for row in own]
    effects = {bag: two_way_effects(own - right[:, chosen_N]) for bag, right in bags.items()}
    corrected = holm([float(one.p) for one in effects.values()])
    found = {bag: verdict(own, bags[bag][:, chosen_N], effects[bag], float(p)) for bag, p in zip(bags, corrected)}
    return {
        "texts": name,
        "n": int(chosen_N.sum()),
        "mean": mean.value,
        "interval": [mean.low, mean.high],
        "by_seed": one,
        "against": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--on", action="append", required=True, metavar="SPLIT|FILE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    runs, rows = [gf.load(run) for run in given.runs], []
    for place in given.on:
        model_SN, bags, seen_N = right_by(runs, place)
        for name, chosen in (("all", np.ones_like(seen_N)), ("trained on", seen_N), ("not trained on", ~seen_N)):
            if chosen.any() and (name == "all" or not chosen.all()):
                rows.append(judged(f"{Path(place).name}, {name}", model_SN, bags, chosen))
    if given.json:
        json.dump(rows, sys.stdout, indent=1)
        return
    for row in rows:
        seeds = " ".join(f"{100 * value:.1f}" for value in row["by_seed"])
        low, high = row["interval"]
        print(f"{row['texts']} ({row['n']}): {100 * row['mean']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]; seeds {seeds}")
        for bag, one in row["against"].items():
            value, lowest, highest = (100 * number for number in one["difference"])
            told = f"{value:+.1f} [{lowest:+.1f}, {highest:+.1f}], p {one['p']:.3f}: {one['verdict']}"
            print(f"    {bag} {100 * one['bag']:.1f} %: {told}; McNemar's mid-p by seed {one['mcnemar']}")


if __name__ == "__main__":
    main()
