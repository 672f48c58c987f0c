"""The studies of labels on one GPU: a pretrained encoder and the labelled sets in -> verdicts, figures and times as JSON.

    python bench/labels_gpu.py --encoder FOLDER --data FOLDER --out FOLDER [--jobs 8] [JOB ...]

Jobs, each with its own JSON file, in this order unless named: speeches (six seeds of speeches-classify on dev, beside the bags
of words), sst2-tuning, sst2-few, boolq-rates (one seed of each rate: which collapse), boolq-tuning, speeches-parts,
sst2-optimizers-one-rate, sst2-optimizers, sst2-grid, sst2-search. A job that is cut off leaves the others' files.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from pathlib import Path
from typing import Any

PLANS = (
    "sst2-tuning",
    "sst2-few",
    "boolq-tuning",
    "speeches-parts",
    "sst2-optimizers-one-rate",
    "sst2-optimizers",
    "sst2-grid",
    "sst2-search",
)
JOBS = ("speeches", "sst2-tuning", "sst2-few", "boolq-rates", *PLANS[2:])
RATES = {"1e-4": (1e-4, 4), "1e-3": (1e-3, 9), "5e-4": (5e-4, 7), ".0125": (0.0125, 12), ".0125 long": (0.0125, 20)}


def figures(result: Any) -> dict[str, Any]:
    """An evaluation as plain values, with what was said about it."""
    plain = result.to_dict()
    return {key: plain[key] for key in ("metrics", "baselines", "notes", "confusion")}


def speeches(out: Path) -> dict[str, Any]:
    """Six seeds on dev, which nothing was chosen on."""
    import numpy as np

    import glassformer as gf

    runs = []
    for seed in range(6):
        run = gf.train("speeches-classify", set={"training.compile": False}, seed=seed, out=out / "runs" / f"speeches-{seed}")
        runs.append({"seed": seed, **figures(run.evaluate("test:dev"))})
    values = [run["metrics"]["accuracy"]["value"] for run in runs]
    unseen = [run["metrics"]["accuracy_unseen"]["value"] for run in runs]
    return {"mean": float(np.mean(values)), "by_seed": values, "mean_unseen": float(np.mean(unseen)), "runs": runs}


def boolq_rates(out: Path, encoder: str) -> dict[str, Any]:
    """One run for each rate: what it reaches on dev, and whether it collapsed."""
    import glassformer as gf

    found = {}
    for name, (rate, epochs) in RATES.items():
        settings = {"model.folder": encoder, "training.lr": rate, "training.epochs": epochs, "training.schedule": "constant"}
        run = gf.train("boolq-minilm", set={**settings, "checkpoint.every": 10000}, out=out / "runs" / f"boolq-{name}")
        curve = [record["validation_accuracy"] for record in run.records() if "validation_accuracy" in record]
        found[name] = {"lr": rate, "epochs": epochs, "curve": curve, **figures(run.evaluate("test:dev"))}
    return found


def study(name: str, out: Path, encoder: str, jobs: int) -> dict[str, Any]:
    """A plan that comes with the package, with the encoder of the command line."""
    import yaml

    import glassformer as gf
    from glassformer.study.planning.plan import built_in_studies

    plan = yaml.safe_load(built_in_studies()[name].read_text(encoding="utf-8"))
    if "minilm" in plan["base"]:
        plan["set"] = {**plan.get("set", {}), "model.folder": encoder}
    file = out / f"plan-{name}.yaml"
    file.write_text(yaml.safe_dump(plan), encoding="utf-8")
    compared = gf.compare(str(file), out=out / "studies" / name, jobs=jobs)
    return (
        compared.to_dict() if hasattr(compared, "to_dict") else {"verdicts": [vars(verdict) for verdict in compared.verdicts]}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", required=True, help="folder of all-MiniLM-L6-v2, or of another encoder")
    parser.add_argument("--data", required=True, help="folder with sst2, boolq and speeches in it")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("wanted", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}")
    given = parser.parse_args()
    os.environ["GLASSFORMER_DATA"] = given.data
    given.out.mkdir(parents=True, exist_ok=True)
    encoder = str(Path(given.encoder).absolute())
    for job in given.wanted or JOBS:
        began = time.perf_counter()
        try:
            if job == "speeches":
                found = speeches(given.out)
            elif job == "boolq-rates":
                found = boolq_rates(given.out, encoder)
            else:
                found = study(job, given.out, encoder, given.jobs)
        except Exception as error:
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"}
        found["seconds"] = round(time.perf_counter() - began, 1)
        (given.out / f"{job}.json").write_text(json.dumps(found, indent=1, default=str), encoding="utf-8")
        print(job, found["seconds"], "s", found.get("mean", found.get("error", "")), flush=True)


if __name__ == "__main__":
    main()
