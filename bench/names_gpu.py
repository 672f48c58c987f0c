"""Birth places on one GPU: settings tried on people held out of train.tsv, then seeds of one setting on dev.

    export GLASSFORMER_DATA=FOLDER            # with names/wiki.txt, train.tsv, dev.tsv, test_inputs.tsv
    python bench/names_gpu.py try --out $OUT/try.json [--only NAME]... [--set training.steps=6000]
    python bench/names_gpu.py seeds NAME --seeds 0 1 2 3 4 5 --out $OUT/seeds.json [--set training.steps=20000]
    python bench/names_gpu.py answer RUN --out $OUT/answer.json       # 437 questions: one batch against one by one

``try`` never opens dev.tsv. ``seeds`` trains on all of train.tsv and opens dev.tsv once for each seed; its time is that of one
whole run from nothing to predictions for the 437 people without answers. Every result is written as soon as it is there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import glassformer as gf
from glassformer.data.reading.named_sets import find_set
from glassformer.foundation.config import parse_assignment
from glassformer.foundation.files import write_atomically, write_json
from glassformer.foundation.runtime import choose_device
from glassformer.knowledge.answers import answer_questions

RECIPE = "names-mixed"
SPANS, ANSWERS = "objective.parts.spans", "objective.parts.answers"
SETTINGS: dict[str, dict[str, Any]] = {
    "recipe": {},
    "whole": {f"{SPANS}.cut": "none"},
    "title": {f"{SPANS}.start": "title", f"{SPANS}.cut": "none"},
    "title-salient-8": {f"{SPANS}.start": "title", f"{SPANS}.cut": "none", f"{SPANS}.salient": 0.8},
    "title-random": {f"{SPANS}.start": "title"},
    "title-slow": {f"{SPANS}.start": "title", f"{SPANS}.cut": "none", "training.optimizer.lr_factor": 3.0},
    "title-fast": {f"{SPANS}.start": "title", f"{SPANS}.cut": "none", "training.optimizer.lr_factor": 10.0},
    "title-learned": {f"{SPANS}.start": "title", f"{SPANS}.cut": "none", "model.positions": "learned"},
    "title-dropout": {f"{SPANS}.start": "title", f"{SPANS}.cut": "none", "model.dropout": 0.1},
}
"""One change or two each; chosen between on held-out people."""


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    for name in ("try", "seeds", "answer"):
        verb = what.add_parser(name)
        verb.add_argument("--out", type=Path, required=True)
        verb.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
        verb.add_argument("--runs", type=Path, help="keep the runs here")
        if name == "try":
            verb.add_argument("--only", action="append", choices=list(SETTINGS))
            verb.add_argument("--seed", type=int, default=0)
            verb.add_argument("--seconds", type=float, default=1e9, help="begin no further setting after this long")
        elif name == "seeds":
            verb.add_argument("setting", choices=list(SETTINGS))
            verb.add_argument("--seeds", type=int, nargs="+", default=list(range(6)))
        else:
            verb.add_argument("run", type=Path)
    given = parser.parse_args(arguments)
    changes = dict(parse_assignment(text) for text in given.set)
    with tempfile.TemporaryDirectory() as scratch:
        runs = given.runs or Path(scratch)
        if given.what == "try":
            return try_settings(given.only or list(SETTINGS), changes, given.seed, given.seconds, runs, given.out)
        if given.what == "seeds":
            return run_seeds(given.setting, changes, given.seeds, runs, given.out)
        return time_answers(given.run, given.out)


def try_settings(
    names: Sequence[str], changes: Mapping[str, Any], seed: int, seconds: float, runs: Path, out: Path
) -> dict[str, Any]:
    """Validation exact match of each setting, one seed."""
    begun, found = time.monotonic(), dict[str, Any]()
    for name in names:
        if time.monotonic() - begun > seconds:
            break
        started = time.monotonic()
        run = gf.train(RECIPE, set={**SETTINGS[name], **changes}, seed=seed, out=runs / name)
        evaluation = run.evaluate("validation")
        found[name] = {
            "seconds": time.monotonic() - started,
            "parameters": sum(tensor.numel() for tensor in run.model.parameters()),
            "metrics": {metric: one.to_dict() for metric, one in evaluation.metrics.items()},
            "curve": {r["step"]: r["validation_exact_match"] for r in run.records() if "validation_exact_match" in r},
        }
        print(f"{name}: {evaluation.metrics['exact_match']} in {found[name]['seconds']:.0f} s", flush=True)
        write_json(out, {"what": "settings tried on held-out people", "set": dict(changes), "settings": found})
    return found


def run_seeds(name: str, changes: Mapping[str, Any], seeds: Sequence[int], runs: Path, out: Path) -> dict[str, Any]:
    """Dev exact match of one setting by seed, trained on all pairs, and the time from nothing to predictions."""
    settings = {**SETTINGS[name], "data.split.validation": 0.0, **changes}
    unanswered = find_set("names").questions.unanswered["test_inputs"]  # type: ignore[union-attr]
    found: dict[str, Any] = {"setting": name, "set": settings, "seeds": {}}
    for seed in seeds:
        started = time.monotonic()
        run = gf.train(RECIPE, set=settings, seed=seed, out=runs / f"{name}-{seed}")
        answers = run.ask(run.questions(unanswered))
        seconds = time.monotonic() - started
        write_atomically(out.with_name(f"predictions-{name}-{seed}.txt"), "".join(f"{one.answer}\n" for one in answers))
        evaluation = run.evaluate("test:dev")
        found["seeds"][seed] = {
            "dev": evaluation.metrics["exact_match"].to_dict(),
            "metrics": {metric: one.to_dict() for metric, one in evaluation.metrics.items()},
            "baselines": {b: f["exact_match"].to_dict() for b, f in evaluation.baselines.items() if "exact_match" in f},
            "seconds": seconds,
            "parameters": sum(tensor.numel() for tensor in run.model.parameters()),
        }
        values = [one["dev"]["value"] for one in found["seeds"].values()]
        found["mean"], found["sd"] = mean(values), stdev(values) if len(values) > 1 else None
        print(f"seed {seed}: dev {evaluation.metrics['exact_match']} in {seconds:.0f} s; mean {found['mean']:.4f}", flush=True)
        write_json(out, found)
    return found


def time_answers(folder: Path, out: Path) -> dict[str, Any]:
    """All unanswered questions in one batch against one by one without a cache: seconds, ratio, and whether they are equal."""
    run = gf.load(folder)
    items = run.questions(find_set("names").questions.unanswered["test_inputs"])  # type: ignore[union-attr]
    network = run.model.to(choose_device("auto"))
    answer_questions(network, run.tokenizer, items)  # warm
    seconds, answers = {}, {}
    for name, one_by_one in (("batch", False), ("one by one", True)):
        started = time.monotonic()
        answers[name] = [one.answer for one in answer_questions(network, run.tokenizer, items, one_by_one=one_by_one)]
        seconds[name] = time.monotonic() - started
    differ = sum(a != b for a, b in zip(*answers.values()))
    found = {"questions": len(items), "seconds": seconds, "ratio": seconds["one by one"] / seconds["batch"], "differ": differ}
    print(found, flush=True)
    write_json(out, found)
    return found


if __name__ == "__main__":
    main()
