"""How many texts of other files a classifier calls unlike anything seen, and how many held-out ones: false alarms.

python bench/unlike.py RUN usual:dev.txt german:val.de captions:val.en   (one text per line; --first N of each)

Beside the score that `predict` uses, each of its parts alone and the energy (minus the logarithm of the summed exponentials of
the scores; Liu et al. 2020), each with the limit that 1 % or 5 % of the validation texts exceed. Prints a table; writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np

import glassformer as gf
from glassformer.data.labels.texts_to_classify import unlabelled_texts
from glassformer.prediction import score_texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("files", nargs="+", metavar="NAME:FILE")
    parser.add_argument("--first", type=int, default=300, help="texts of each file, drawn with seed 0")
    parser.add_argument("--cut", action="store_true", help="drop the first word of each line: a label")
    options = parser.parse_args()
    run = gf.load(options.run)
    predictor = run.predictor()
    reference = predictor.reference
    assert reference is not None

    def scored(texts: list[str]) -> dict[str, np.ndarray]:
        items = unlabelled_texts("text", texts, predictor.label_names)
        found = score_texts(predictor.network, predictor.tokenizer, items, context=predictor.context)
        return {
            "both (used)": reference.strangeness(found.vectors_ND, texts),
            "distance": reference.distances(found.vectors_ND),
            "spelling": np.array([reference.trigrams.surprise(text) for text in texts]),
            "energy": -np.logaddexp.reduce(found.scores_NC, axis=1),
        }

    held_out = scored(list(run.data.part("labels").split("validation").texts))
    results: dict[str, Any] = {}
    for pair in options.files:
        name, _, file = pair.partition(":")
        lines = [line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines() if len(line.strip()) > 20]
        random.Random(0).shuffle(lines)
        texts = [line.split(maxsplit=1)[1] if options.cut and name == "usual" else line for line in lines[: options.first]]
        found = scored(texts)
        results[name] = {
            score: {
                "texts": len(texts),
                **{f"{at:.0%}": int((found[score] > np.quantile(held_out[score], 1 - at)).sum()) for at in (0.01, 0.05)},
            }
            for score in found
        }
        results[name]["predict"] = {"texts": len(texts), "unlike": sum(bool(one.unlike) for one in predictor.predict(texts))}
    print(f"{'texts':14s} {'of':>4s} {'predict':>8s} " + " ".join(f"{score + ' 1 %, 5 %':>20s}" for score in held_out))
    for name, row in results.items():
        cells = " ".join(f"{row[score]['1%']:>13d}, {row[score]['5%']:>5d}" for score in held_out)
        print(f"{name:14s} {row['predict']['texts']:4d} {row['predict']['unlike']:8d} {cells}")
    if folder := os.environ.get("OUT"):
        (Path(folder) / "unlike.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
