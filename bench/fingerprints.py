"""Every shipped recipe in short form, every variant and every published verdict -> what a refactoring must not change.

    python bench/fingerprints.py before.json              # on the tree as it was
    python bench/fingerprints.py after.json before.json   # on the changed tree: names what differs, then exit code 1

A run's fingerprint: sha256 of its weights and optimizer, its metrics, its baselines, its texts. A verdict's: its word and its
numbers, computed again from docs/measurements/values-*.json. The same build, device and number of threads give the same bits,
so run both on one machine. Real data sets are taken from GLASSFORMER_DATA. Whatever cannot be made is named, and the exit code
is 1. Baselines may move by 1e-3 of their value, numbers of verdicts by 1e-9 (they come from libraries); those that do are
listed. Words of verdicts must be equal.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the tiny encoders of the tests

import glassformer as gf  # noqa: E402
from glassformer.data.reading.named_sets import find_set  # noqa: E402
from glassformer.foundation.errors import ConfigError  # noqa: E402
from glassformer.foundation.registry import Slot  # noqa: E402
from glassformer.recipe import built_in_recipes, list_variants, load_recipe, parent_recipe  # noqa: E402
from glassformer.run import Run  # noqa: E402
from glassformer.runs.checkpoint import checkpoint_checksums  # noqa: E402
from glassformer.study.planning.plan import BASE, StudyPlan  # noqa: E402
from glassformer.study.statistics.verdict import decide  # noqa: E402
from glassformer.study.values_file import read_values  # noqa: E402

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
TOLERANCES = {"baselines": {"rel_tol": 1e-3, "abs_tol": 1e-3}, "verdicts": {"rel_tol": 1e-9}}


def measured(run: Run) -> dict[str, Any]:
    """What is compared of a short run."""
    validated = any(key.startswith("validation") for record in run.records() for key in record)
    evaluation = run.evaluate(None if validated else "train", allow_leaks=True)
    writes = "causality" in run.recipe.objective.laws
    return {
        "sums": checkpoint_checksums(run.directory, STEPS),
        "figures": {metric: estimate.value for metric, estimate in evaluation.metrics.items()},
        "baselines": {base: {key: one.value for key, one in row.items()} for base, row in evaluation.baselines.items()},
        "text": [one.text for one in run.generate(["The ", "a"], max_new_tokens=24, seed=3)] if writes else [],
    }


def shipped(name: str, form: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One shipped recipe, trained for a few steps; its parent too, if it starts from a recipe."""
    recipe, changes = load_recipe(name), {**SHORT, **SMALLER.get(name, {}), **form}
    if recipe.data.set == "wikitext-2":  # a piece of it: a validation of all of it takes minutes
        piece = folder.with_name(f"{folder.name}.txt")
        piece.write_text(Path(find_set("wikitext-2").train.files[0]).read_text(encoding="utf-8")[:200_000], encoding="utf-8")
        changes |= {"data.path": str(piece), "data.document": "article", "model.layers": 2}
    if "pretrained" in str(recipe.model.to_dict().get("kind")):
        from tests.encoders import make_folder

        encoder = folder.with_name(f"{folder.name}-encoder")
        encoder.mkdir()
        changes |= {"model.folder": str(make_folder(encoder, "roberta" if "roberta" in name else "bert")), "model.context": 24}
    if recipe.init_from is not None:
        parent = folder.with_name(f"{folder.name}-parent")
        gf.train(parent_recipe(recipe), set=SHORT, out=parent, threads=1)
        changes |= {"init_from": str(parent)}
    return measured(gf.train(name, set=changes, out=folder, threads=1, allow_leaks=True))


def texts(folder: Path) -> tuple[Path, Path]:
    """A text of lines, and a table of labelled texts."""
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "ran", "to", "see", "an", "old", "red", "hen"]
    lines = [" ".join(words[(7 * line + 3 * at) % len(words)] for at in range(4 + line % 5)) for line in range(160)]
    text, table = folder / "lines.txt", folder / "table.tsv"
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [f"{'even' if at % 2 == 0 else 'odd'}\t{line}" for at, line in enumerate(lines)]
    table.write_text("label\ttext\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return text, table


def of_variant(slot: str, kind: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One variant with one of its examples' settings, in a tiny recipe in which it can be used."""
    text, table = texts(folder.parent)
    recipe: dict[str, Any] = {
        "data": {"path": str(text), "document": "line", "split": {"validation": 0.2, "test": 0.1}},
        "model": {"width": 12, "heads": 3, "layers": 2, "context": 16, "dropout": 0.1},
        "training": {"batch_size": 4, "lr": 0.01, "device": "cpu", "precision": "float32"},
        "seed": 3,
    }
    chosen: dict[str, Any] = {slot: {"kind": kind, **settings}, **SHORT}
    labelled = slot == "model.tuning" or (slot, kind) in {
        ("model.head", "classifier"),
        ("objective", "labels"),
        ("model", "pretrained"),
    }
    if labelled:
        recipe |= {"data": {"path": str(table), "split": {"validation": 0.2, "test": 0.1}}, "objective": "labels"}
        chosen |= {"data.text_column": "text", "data.label_column": "label"}
        chosen |= (
            {} if slot == "model.head" or slot.startswith("model.tuning") or slot == "model" else {"model.head": "classifier"}
        )
        chosen |= {} if slot.startswith("model.tuning") or slot == "model" else {"model.causal": False}
    if slot == "model.tuning" or (slot, kind) == ("model", "pretrained"):
        from tests.encoders import make_folder

        encoder = folder.with_name(f"{folder.name}-encoder")
        encoder.mkdir()
        recipe["model"] = {"kind": "pretrained", "folder": str(make_folder(encoder)), "context": 20}
        if kind in ("prefix", "prompt"):
            chosen[slot] = {"kind": kind, "length": 5}
        if slot == "model":
            del chosen[slot]
    if slot == "model.mixer" and Slot.every[slot].get(kind).borrows_keys:
        chosen[slot] = ["dot", chosen[slot]]
    if (slot, kind) == ("model.embedding", "factorised"):
        chosen["model.head"] = "untied"
    if (slot, kind) == ("model", "transformer"):
        del chosen[slot]
    if (slot, kind) in {("model.head", "masked"), ("model.head", "pooled")} or (slot, kind) == ("objective", "masked"):
        chosen |= {"objective": "masked", "model.causal": False}
    if slot == "objective" and kind in ("answers", "mixture"):
        recipe["data"] = {"set": {"kind": "world", "people": 100}}
        chosen |= {"model.context": 96}
    if slot == "data.set":
        recipe["data"] = {}
        chosen |= {"objective": "answers", "model.context": 96}
    if (slot, kind) == ("objective", "mixture"):
        chosen[slot] = load_recipe("world-mixed").to_dict()["objective"]
    if (slot, kind) == ("tokenizer", "file"):
        made = gf.train(recipe, set={**SHORT, "tokenizer": "char"}, out=folder.with_name(f"{folder.name}-first"), threads=1)
        chosen[slot] = {"kind": kind, "file": str(made.directory.tokenizer_file)}
    if slot == "tokenizer" and kind == "bpe":
        chosen[slot] = {"kind": kind, "vocab": 300}
    return measured(gf.train(recipe, set=fitting(recipe, chosen), out=folder, threads=1, allow_leaks=True))


def fitting(recipe: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    """The changes, with the first positions and mixer that fit the chosen part."""
    try:
        load_recipe(recipe, chosen)
        return chosen
    except ConfigError:
        for positions in Slot.every["model.positions"].names():
            for mixer in ("dot", *Slot.every["model.mixer"].names()):
                more = {"model.positions": positions, "model.mixer": mixer, **chosen}
                try:
                    load_recipe(recipe, more)
                except ConfigError:
                    continue
                return more
        raise


def verdicts(file: Path) -> dict[str, Any]:
    """The words and numbers of one published study, from its values by seed and document."""
    document = json.loads((file.parent / file.name.replace("values-", "study-")).read_text(encoding="utf-8"))
    plan, values = StudyPlan.parse(document["plan"]), read_values(file)
    base, *changes = (values.trials[name] for name in plan.variants)
    found = decide(
        base,
        changes,
        plan.rules(),
        weights=values.weights,
        labels=plan.seed_numbers,
        blocks=values.blocks,
        groups=values.groups,
        base_labels=plan.bank,
    )
    rows = [{key: value for key, value in one.to_dict().items() if key not in ("sentence", "headline")} for one in found]
    return {"verdicts": rows, "base": values.seed_values[BASE].tolist()}


def everything(scratch: Path, only: list[str]) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Each fingerprint's name, and how it is made."""
    for name in built_in_recipes():
        for label, form in FORMS.items():
            yield (
                f"recipe {name} {label}",
                lambda name=name, label=label, form=form: shipped(name, form, scratch / f"{name}-{label}"),
            )
    for row in list_variants():
        slot, kind = row["slot"], row["name"]
        for number, settings in enumerate(getattr(Slot.every[slot].get(kind), "examples", ({},))):
            place = scratch / f"{slot}-{kind}-{number}"
            yield (
                f"variant {slot}={kind} {json.dumps(settings)}",
                lambda slot=slot, kind=kind, settings=settings, place=place: of_variant(slot, kind, settings, place),
            )
    for file in sorted((ROOT / "docs" / "measurements").glob("values-*.json")):
        yield f"verdicts {file.stem.removeprefix('values-')}", lambda file=file: verdicts(file)


def close(one: Any, other: Any, tolerance: dict[str, float]) -> bool:
    """Equal, numbers within ``tolerance``; a ``reason`` is a sentence, and may be reworded."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key], tolerance) for key in one if key != "reason")
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(close(a, b, tolerance) for a, b in zip(one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, **tolerance)
    return bool(one == other)


def differences(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What is different; and which baselines and numbers of verdicts moved a little."""
    different, moved = [], []
    for key in sorted(old):
        for part in sorted({*old[key], *new.get(key, {})}):
            before, after = old[key].get(part), new.get(key, {}).get(part)
            if before == after:
                continue
            if part in TOLERANCES and close(before, after, TOLERANCES[part]):
                moved.append(f"{key}: {part}")
            else:
                different.append(f"{key}: {part}")
    return different, moved


def main(out: Path, before: Path | None, only: list[str]) -> int:
    """Writes ``out``; with ``before``, compares. ``only``: those whose name contains one of these."""
    found: dict[str, Any] = {}
    failed: list[str] = []
    old = {} if before is None else json.loads(before.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        for name, make in everything(Path(scratch), only):
            if only and not any(part in name for part in only):
                continue
            try:
                found[name] = json.loads(json.dumps(make()))
                word = (
                    "done" if name not in old else "the same" if not differences({name: old[name]}, found)[0] else "DIFFERENT"
                )
                print(f"{name}: {word}", file=sys.stderr, flush=True)
            except Exception as error:
                failed.append(name)
                print(f"{name}: FAILED ({type(error).__name__}: {error})", file=sys.stderr)
                traceback.print_exc(limit=-3)
    out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{len(found)} made, {len(failed)} failed" + "".join(f"\n  failed: {name}" for name in failed))
    if before is None:
        return 1 if failed else 0
    if only:
        old = {name: value for name, value in old.items() if any(part in name for part in only)}
    different, moved = differences(old, found)
    print(f"{len(old)} compared: {len(different)} different, {len(moved)} within the tolerance")
    print("".join(f"  different: {one}\n" for one in different) + "".join(f"  moved: {one}\n" for one in moved), end="")
    return 1 if different or failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("--only", metavar="PART", nargs="*", default=[])
    given = parser.parse_args()
    sys.exit(main(given.out, given.before, given.only))
