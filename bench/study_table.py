"""A finished study -> perplexity of every variant on train, other splits and the recipe's own texts.

    python bench/study_table.py STUDY [--splits train,validation] [--documents 60] [--seeds 3] [--out FILE]

Each figure is the geometric mean over seeds of the perplexity by token, with Student's interval of the loss. Of a merge
that sees the future (``reweight``) there is a second row, "switched off at inference": the same weights with their heads
concatenated, unscaled. Train is measured on its first documents. Trains nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import glassformer as gf
from glassformer.evaluation.interval_estimates import mean
from glassformer.evaluation.token_losses import token_losses
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import write_json
from glassformer.foundation.runtime import choose_device
from glassformer.model.merges.concat import Concat
from glassformer.run import Run
from glassformer.study.study import Study

MEASUREMENTS = Path(__file__).parents[1] / "docs" / "measurements"
OFF = "switched off at inference"


@contextmanager
def merged_in_order(model: Any) -> Iterator[None]:
    """The model with its heads side by side and unscaled, for the length of the ``with``."""
    before = [block.attention.merge for block in model.blocks]
    try:
        for block in model.blocks:
            block.attention.merge = Concat()
        yield
    finally:
        for block, merge in zip(model.blocks, before):
            block.attention.merge = merge


def perplexities(run: Run, model: Any, splits: Sequence[str], documents: int) -> dict[str, float]:
    """By split and by the name of a text: e to the mean loss per token."""
    context, found = run.recipe.model.context, {}
    for split in splits:
        items = run.data.split(split)
        end = int(items.starts[documents]) if split == "train" and len(items.starts) > documents else len(items.tokens)
        device = next(model.parameters()).device
        losses = token_losses(model, items.tokens[:end], context=context, batch_size=16, device=device)
        found[split] = float(np.exp(losses.mean()))
    for name, text in run.recipe.evaluation.texts.items():
        found[name] = float(np.exp(run.token_losses(text, model=model).mean()))
    return found


def geometric_mean(perplexities: Sequence[float]) -> Estimate:
    """Perplexities are skewed, their logarithms hardly: the mean of these with its interval, as perplexities again."""
    loss = mean(np.log(np.array(perplexities)))
    return Estimate(*(None if one is None else float(np.exp(one)) for one in (loss.value, loss.low, loss.high)), loss.n)


def table_of(study: Study, splits: Sequence[str], documents: int, seeds: int | None = None) -> dict[str, Any]:
    """The rows by variant; each a column -> the mean over seeds with its interval."""
    values: dict[str, dict[str, list[float]]] = {}
    for variant, results in study.results.items():
        for result in [one for one in results if one.status == "finished"][:seeds]:
            run = gf.load(study.directory.trial(result.trial))
            model = run.model.to(choose_device("auto"))
            forms = {variant: perplexities(run, model, splits, documents)}
            if "causality" in run.recipe.model.of_layer(0).merge.breaks:
                with merged_in_order(model):
                    forms[f"{variant}, {OFF}"] = perplexities(run, model, splits, documents)
            for name, figures in forms.items():
                for column, value in figures.items():
                    values.setdefault(name, {}).setdefault(column, []).append(value)
            print(variant, result.trial.seed, {key: round(value, 1) for key, value in forms[variant].items()}, flush=True)
    number = max(len(ones) for columns in values.values() for ones in columns.values())
    return {
        "study": study.folder.name,
        "date": datetime.now(tz=UTC).date().isoformat(),
        "what": f"Perplexity by token (train: its first {documents} documents), geometric mean over {number} seeds",
        "train_documents": documents,
        "rows": {
            name: {column: geometric_mean(ones).to_dict() for column, ones in columns.items()}
            for name, columns in values.items()
        },
    }


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--splits", default="train,validation")
    parser.add_argument("--documents", type=int, default=60, help="documents of the training text that are measured")
    parser.add_argument("--seeds", type=int, default=None, help="only the first seeds of each variant; all unless told")
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args(words)
    study = Study.load(asked.study)
    document = table_of(study, asked.splits.split(","), asked.documents, asked.seeds)
    write_json(asked.out or MEASUREMENTS / f"table-{document['study']}.json", document)


if __name__ == "__main__":
    main()
