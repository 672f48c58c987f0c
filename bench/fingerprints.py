"""Every shipped recipe in short form -> sha256 of its weights and its figures: what a refactoring must not change.

    python bench/fingerprints.py before.json              # on the tree as it was
    python bench/fingerprints.py after.json before.json   # on the changed tree: names what differs, then exit code 1

The same build, device and number of threads give the same bits, so run both on one machine. Real data sets are taken from
GLASSFORMER_DATA; recipes whose data are absent are left out and named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer.data.sets import find_set
from glassformer.foundation.errors import GlassformerError
from glassformer.recipe import built_in_recipes, load_recipe
from glassformer.runs.checkpoint import checkpoint_checksums

STEPS = 6
SHORT = {"training.steps": STEPS, "evaluation.every": 3, "checkpoint.every": 3, "checkpoint.best": True}
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulated": {"training.accumulate": 2, "training.label_smoothing": 0.1, "model.dropout": 0.1},
}
SMALLER = {
    "shakespeare-char": {"training.batch_size": 4, "model.layers": 2},
    "gpt-nano-words": {"training.batch_size": 2, "model.context": 128},
    "gpt-nano-bpe": {"training.batch_size": 32},
}


def fingerprint(name: str, form: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The sums of weights and optimizer, and the figures of validation, of one short run."""
    if load_recipe(name).data.set == "wikitext-2":  # a piece of it: a validation of all of it takes minutes
        piece = folder.with_name(f"{folder.name}.txt")
        piece.write_text(Path(find_set("wikitext-2").train.files[0]).read_text(encoding="utf-8")[:200_000], encoding="utf-8")
        form = {**form, "data.path": str(piece), "data.document": "article", "model.layers": 2}
    run = gf.train(name, set={**SHORT, **SMALLER.get(name, {}), **form}, out=folder, threads=1, allow_leaks=True)
    evaluation = run.evaluate(allow_leaks=True)
    text = run.generate(["The ", "a"], max_new_tokens=24, seed=3)
    figures = {metric: estimate.value for metric, estimate in evaluation.metrics.items()}
    beside = {base: {key: one.value for key, one in row.items()} for base, row in evaluation.baselines.items()}
    return {
        "sums": checkpoint_checksums(run.directory, STEPS),
        "figures": figures,
        "baselines": beside,
        "text": [sample.text for sample in text],
    }


def main(out: Path, before: Path | None, only: list[str]) -> int:
    """Writes ``out``; with ``before``, compares. ``only``: these recipes; unless given all, or those of ``before``."""
    found: dict[str, Any] = {}
    old = {} if before is None else json.loads(before.read_text())
    names = set(only) or ({key.rpartition(" ")[0] for key in old} if old else set(built_in_recipes()))
    with tempfile.TemporaryDirectory() as scratch:
        for name in sorted(names):
            for label, form in FORMS.items():
                try:
                    found[f"{name} {label}"] = fingerprint(name, form, Path(scratch) / f"{name}-{label}")
                except GlassformerError as error:
                    print(f"{name} {label}: left out ({error})", file=sys.stderr)
    out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    if before is None:
        return 0
    differing = [key for key in sorted({*old, *found} & set(old)) if old[key] != found.get(key)]
    print(f"{len(old) - len(differing)} of {len(old)} the same" + (f"; different: {', '.join(differing)}" if differing else ""))
    return 1 if differing else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("--only", metavar="NAME", nargs="*", default=[])
    given = parser.parse_args()
    sys.exit(main(given.out, given.before, given.only))
