"""A tenth of a set's labels turned into another one -> how many of them `data labels` finds: precision and recall.

python bench/label_noise.py sst2 boolq table.csv [--share 0.1] [--seed 0]

Names of built-in sets, or tables with the columns text and label. `first`: precision among the first 100 suspects, or as many
as were planted. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.labels.labelled_texts import Labels
from glassformer.evaluation.label_quality import suspects


def found_in(name: str, share: float, seed: int) -> dict[str, Any]:
    source = {"path": name} if Path(name).exists() else {"set": name}
    items = Labels(DataConfig.parse({**source, "split": {"validation": 0.0}})).split("train")
    draw, labels = np.random.default_rng(seed), items.labels.copy()
    planted = draw.choice(len(items), round(share * len(items)), replace=False)
    labels[planted] = (labels[planted] + draw.integers(1, len(items.label_names), len(planted))) % len(items.label_names)
    named, wrong = [row["id"] for row in suspects(replace(items, labels=labels))], {items.ids[at] for at in planted}
    right = [one in wrong for one in named]
    first = right[: min(100, len(planted))]
    return {
        "texts": len(items),
        "planted": len(planted),
        "suspects": len(named),
        "precision": round(sum(right) / max(1, len(named)), 3),
        "recall": round(sum(right) / len(planted), 3),
        "first": f"{sum(first)} of {len(first)}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(json.dumps({name: found_in(name, options.share, options.seed) for name in options.sets}, indent=1))


if __name__ == "__main__":
    main()
