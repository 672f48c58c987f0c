"""Few examples of each label: finished studies of the plan sst2-few-examples beside scikit-learn on the same vectors.

for n in 8 16 32 64; do glassformer compare sst2-few-examples --set data.few=$n --out few-$n; done
python bench/few_examples.py few-8 few-16 few-32 few-64

For each seed, logistic regression (scikit-learn's defaults, 1,000 iterations) is fitted on the stored vectors of the texts that
the seed drew, and measured on the texts that the study judges. Intervals are over seeds crossed with texts; p is Holm's over
the ways of one study; *same* is within one point. Prints a table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from glassformer.data.labels.label_batches import encode_texts
from glassformer.study.planning.plan import BASE
from glassformer.study.planning.power import FEWEST_SEEDS
from glassformer.study.statistics.corrections import holm
from glassformer.study.statistics.two_way import two_way_effects
from glassformer.study.study import Study

MARGIN = 0.01


def by_scikit_learn(study: Study) -> np.ndarray:
    """[seed, text]: 1 where logistic regression on the encoder's vectors is right."""
    found = []
    for run in study.runs(BASE):
        part, network = run.data.part("labels"), run.network_at()
        train, judged = part.split("train"), part.split(study.plan.split)
        vectors = [
            network.stored_vectors(encode_texts(run.tokenizer, items, run.recipe.model.context)) for items in (train, judged)
        ]
        fitted = LogisticRegression(max_iter=1000).fit(vectors[0], train.labels)
        found.append((fitted.predict(vectors[1]) == judged.labels).astype(float))
    return np.stack(found)


def percent(values: tuple[float | None, ...], sign: str = "") -> str:
    value, low, high = (100 * (number or 0.0) for number in values)
    return f"{value:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def rows(study: Study) -> list[str]:
    """The rows of the table."""
    regression = by_scikit_learn(study)
    right = {name: study.values.trials[name].values for name in study.plan.variants}
    effects = {name: two_way_effects(values - regression, answers=True) for name, values in right.items()}
    corrected = dict(zip(effects, holm([float(one.p) for one in effects.values()])))
    few, lines = study.plan.set["data.few"], []
    for name, values in {"logistic regression": regression, **right}.items():
        mean, cells = two_way_effects(values).estimate(), ["", ""]
        if name in effects:
            off, decided = effects[name].estimate(), len(regression) >= FEWEST_SEEDS
            same = decided and float(effects[name].p_same(MARGIN)) <= study.plan.alpha
            word = "better" if (off.value or 0.0) > 0 else "worse"
            word = "same" if same else word if decided and corrected[name] <= study.plan.alpha else "not decided"
            cells[0] = f"{word}, {percent((off.value, off.low, off.high), '+')}, p {corrected[name]:.3f}"
        if name not in (BASE, "logistic regression"):
            own = study.verdict(name)
            cells[1] = f"{own.verdict}, {percent((own.difference.value, own.difference.low, own.difference.high), '+')}"
        way = "head on stored vectors" if name == BASE else name
        lines.append(f"| {few} | {way} | {percent((mean.value, mean.low, mean.high))} | {cells[0]} | {cells[1]} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path, nargs="+")
    print("| texts a label | way | accuracy, % | against logistic regression | against the head (`compare`) |")
    print("|---|---|---|---|---|")
    for folder in parser.parse_args().studies:
        print("\n".join(rows(Study.load(folder))), flush=True)


if __name__ == "__main__":
    main()
