"""A finished study of labels on a set's own test split -> each way of tuning against the majority class and the bags of words.

    python bench/tuning_table.py STUDY --set boolq [--out docs/measurements/table-NAME.json]

Accuracy and differences have intervals of seeds crossed with texts; p is Holm's over all ways and baselines of the study. The
baselines are fitted here, on the training texts of the set as the recipes split it. Trains nothing but a model of one step.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import glassformer as gf
from glassformer.assembly import tools_for
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json, write_json
from glassformer.study.statistics.corrections import holm
from glassformer.study.statistics.two_way import two_way_effects
from glassformer.study.study import Study

MEASUREMENTS = Path(__file__).parents[1] / "docs" / "measurements"
BASELINES = ("majority", "bag of words", "word pairs")
TINY = {"width": 8, "layers": 1, "heads": 1, "context": 16, "causal": False, "head": {"kind": "classifier", "hidden": []}}


def right_by_baseline(name: str, split: str) -> dict[str, np.ndarray]:
    """float64 [N] by baseline: 1 where its label of a text of the split is right."""
    settings = {
        "data": {"set": name},
        "tokenizer": {"kind": "word", "min_count": 100},
        "objective": "labels",
        "model": TINY,
        "training": {"steps": 1, "batch_size": 2, "lr": 1e-3},
        "evaluation": {"every": 2},
    }
    with tempfile.TemporaryDirectory() as folder:
        run = gf.train(settings, out=Path(folder) / "run")
        tools, items, fitted = tools_for(run.recipe, run.tokenizer), run.data.split(split), run.baselines()
        return {name: fitted[name].evaluate(items, tools).units["accuracy"].sums for name in BASELINES}


def table_of(study: Study, name: str) -> dict[str, Any]:
    """The rows by variant: accuracy, the difference from each baseline with its corrected p, and what a run costs."""
    right = right_by_baseline(name, study.plan.split)
    values = {key: np.array(one["values"]) for key, one in read_json(study.directory.values_file)["variants"].items()}
    effects = {(way, base): two_way_effects(own - right[base]) for way, own in values.items() for base in BASELINES}
    corrected = dict(zip(effects, holm([float(one.p) for one in effects.values()])))
    costs = {row["variant"]: row for row in study.table}
    rows = {}
    for way, own in values.items():
        against = {
            base: {"difference": effects[way, base].estimate().to_dict(), "p": float(corrected[way, base])}
            for base in BASELINES
        }
        cost = {key: costs[way][key] for key in ("parameters", "flops", "memory_bytes")}
        rows[way] = {"accuracy": two_way_effects(own).estimate().to_dict(), "seeds": len(own), "against": against, **cost}
    return {
        "study": study.folder.name,
        "date": datetime.now(tz=UTC).date().isoformat(),
        "set": name,
        "split": study.plan.split,
        "baselines": {base: float(one.mean()) for base, one in right.items()},
        "rows": rows,
    }


def shown(estimate: dict[str, Any]) -> str:
    one = Estimate.from_dict(estimate)
    return f"{100 * one.value:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--set", required=True, dest="name", help="the set that the study was trained on")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    document = table_of(Study.load(given.study), given.name)
    print({name: round(100 * value, 1) for name, value in document["baselines"].items()})
    for way, row in document["rows"].items():
        told = "; ".join(f"{base} {shown(one['difference'])}, p {one['p']:.2g}" for base, one in row["against"].items())
        print(f"{way}: {shown(row['accuracy'])}; {told}")
    write_json(given.out or MEASUREMENTS / f"table-{document['study']}.json", document)


if __name__ == "__main__":
    main()
