"""Every shipped recipe in short form, every variant and every published verdict -> what a refactoring must not change.

    git worktree add ../before COMMIT
    PYTHONPATH=../before/src python bench/fingerprints.py before.json   # this script, on the tree as it was
    PYTHONPATH=src python bench/fingerprints.py after.json before.json  # on this tree: names what differs, then exit code 1
    python bench/fingerprints.py after.json before.json --compare       # makes nothing, compares the two files again

A run's fingerprint: sha256 of its weights and optimizer, its metrics, its baselines, its texts. A verdict's: its word and its
numbers, computed again from docs/measurements/values-*.json. The same build, device and number of threads give the same bits,
so run both on one machine. ``--jobs N``: N processes, one thread each, share them out; the file grows as they come. Real data
sets are taken from GLASSFORMER_DATA. Whatever cannot be made is named, and the exit code is 1; what the tree before did not
have is *new*. Baselines may move by 1e-3 of their value, numbers of verdicts by 1e-9 (they come from libraries); those that do
are listed. Words of verdicts must be equal.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import glassformer as gf

ROOT = Path(gf.__file__).parents[2]
"""The tree whose glassformer is imported, which may be an older one than this script's."""
sys.path.insert(0, str(ROOT))  # the tiny encoders of the tests

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
    "shakespeare-char-fast": {"training.batch_size": 4, "model.layers": 2},
    "gpt-nano-words": {"training.batch_size": 2, "model.context": 128},
    "gpt-nano-bpe": {"training.batch_size": 32},
    "transformer-2017": {"training.batch_size": 2, "model.layers": 1},
    **{name: {"training.batch_size": 16, "model.width": 64} for name in built_in_recipes() if name.startswith("names-")},
}
REWRITING = {"kind": "rewriting", "task": "copy", "pairs": 200, "held_out": 20, "length": 4}
PAIRS = {("model", "encoder-decoder"), ("objective", "translate"), ("tokenizer", "two"), ("data.set", "rewriting")}
TARGETS = {"multilabel": ("even;short", "odd"), "regression": ("2.5", "7")}
LABELLED = {("model.head", "classifier"), ("model", "pretrained"), *(("objective", one) for one in ("labels", *TARGETS))}
TOLERANCES = {"baselines": {"rel_tol": 1e-3, "abs_tol": 1e-3}, "verdicts": {"rel_tol": 1e-9}}


def measured(run: Run) -> dict[str, Any]:
    """What is compared of a short run."""
    records = run.records() if hasattr(run, "records") else run.metrics()  # its name until November 2026
    validated = any(key.startswith("validation") for record in records for key in record)
    evaluation = run.evaluate(None if validated else "train", allow_leaks=True)
    writes, reads_source = "causality" in run.recipe.objective.laws, getattr(run.recipe.objective, "reads_source", False)
    written = run.translate(["12 a", "b"]) if reads_source else []
    if writes and not reads_source:
        written = run.generate(["The ", "a"], max_new_tokens=24, seed=3)
    return {
        "sums": checkpoint_checksums(run.directory, STEPS),
        "figures": {metric: estimate.value for metric, estimate in evaluation.metrics.items()},
        "baselines": {base: {key: one.value for key, one in row.items()} for base, row in evaluation.baselines.items()},
        "text": [one.text for one in written],
    }


def shipped(name: str, form: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One shipped recipe, trained for a few steps; its parent too, if it starts from a recipe."""
    recipe, changes = load_recipe(name), {**SHORT, **SMALLER.get(name, {}), **form}
    if recipe.data.set == "wikitext-2":  # a piece of it: a validation of all of it takes minutes
        piece = folder.with_name(f"{folder.name}.txt")
        piece.write_text(Path(find_set("wikitext-2").train.files[0]).read_text(encoding="utf-8")[:200_000], encoding="utf-8")
        changes |= {"data.path": str(piece), "data.document": "article", "model.layers": 2}
    if recipe.data.set == "multi30k":  # a few pairs of it: four beams over its validation take minutes
        known, pieces = Path(find_set("multi30k").train.files[0]).parent, []
        for side in ("de", "en"):
            pieces.append(folder.with_name(f"{folder.name}.{side}"))
            pieces[-1].write_text("".join((known / f"train.{side}").open(encoding="utf-8").readlines()[:300]), encoding="utf-8")
        changes |= {"data.set": None, "data.path": ",".join(map(str, pieces)), "objective.beams": 2}
    if "pretrained" in str(recipe.model.to_dict().get("kind")):
        from tests.encoders import make_folder

        encoder = folder.with_name(f"{folder.name}-encoder")
        encoder.mkdir()
        changes |= {"model.folder": str(make_folder(encoder, "roberta" if "roberta" in name else "bert")), "model.context": 24}
    if recipe.init_from is not None:
        parent = folder.with_name(f"{folder.name}-parent")
        gf.train(parent_recipe(recipe), set={**SHORT, **SMALLER.get(name, {})}, out=parent, threads=1)
        changes |= {"init_from": str(parent)}
    return measured(gf.train(name, set=changes, out=folder, threads=1, allow_leaks=True))


def texts(folder: Path, labels: tuple[str, str]) -> tuple[Path, Path]:
    """A text of lines, and a table of texts with two labels in turns."""
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "ran", "to", "see", "an", "old", "red", "hen"]
    lines = [" ".join(words[(7 * line + 3 * at) % len(words)] for at in range(4 + line % 5)) for line in range(160)]
    text, table = folder / "lines.txt", folder / "table.tsv"
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [f"{labels[at % 2]}\t{line}" for at, line in enumerate(lines)]
    table.write_text("label\ttext\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return text, table


def of_variant(slot: str, kind: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One variant with one of its examples' settings, in a tiny recipe in which it can be used."""
    text, table = texts(folder.parent, TARGETS.get(kind, ("even", "odd")))
    recipe: dict[str, Any] = {
        "data": {"path": str(text), "document": "line", "split": {"validation": 0.2, "test": 0.1}},
        "model": {"width": 12, "heads": 3, "layers": 2, "context": 16, "dropout": 0.1},
        "training": {"batch_size": 4, "lr": 0.01, "device": "cpu", "precision": "float32"},
        "seed": 3,
    }
    chosen: dict[str, Any] = {slot: {"kind": kind, **settings}, **SHORT}
    if (slot, kind) in PAIRS or slot == "model.cross":
        recipe |= {"data": {"set": REWRITING}, "tokenizer": "char", "objective": "translate"}
        recipe["model"] |= {"kind": "encoder-decoder"}
        chosen |= {"data.set": {**REWRITING, **settings}} if slot == "data.set" else {}
        chosen |= {"tokenizer": {"kind": "two", "source": "char", "target": "char"}} if slot == "tokenizer" else {}
    labelled = slot == "model.tuning" or (slot, kind) in LABELLED
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
    if slot == "model.mixer" and getattr(Slot.every[slot].get(kind), "borrows_keys", False):
        chosen[slot] = ["dot", chosen[slot]]
    if (slot, kind) == ("model.embedding", "factorised"):
        chosen["model.head"] = "untied"
    if (slot, kind) in {("model", "transformer"), ("model", "encoder-decoder")}:
        del chosen[slot]
    if (slot, kind) in {("model.head", "masked"), ("model.head", "pooled")} or (slot, kind) == ("objective", "masked"):
        chosen |= {"objective": "masked", "model.causal": False}
    if slot == "objective" and kind in ("answers", "mixture"):
        recipe["data"] = {"set": {"kind": "world", "people": 100}}
        chosen |= {"model.context": 96}
    if slot == "data.set" and kind != "rewriting":
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
    settings = {"weights": values.weights, "labels": plan.seed_numbers, "blocks": values.blocks, "base_labels": plan.bank}
    if "groups" in inspect.signature(decide).parameters:
        settings["groups"] = values.groups
    found = decide(base, changes, plan.rules(), **settings)
    said = ("sentence", "details", "headline")
    rows = [{key: value for key, value in one.to_dict().items() if key not in said} for one in found]
    seed_values = values.variants[BASE].seed_values if hasattr(values, "variants") else values.seed_values[BASE]  # both trees
    return {"verdicts": rows, "base": seed_values.tolist()}


def everything() -> Iterator[tuple[str, Callable[[Path], dict[str, Any]]]]:
    """Each fingerprint's name, and how it is made in an empty folder; the longest first."""
    for name in built_in_recipes():
        for label, form in FORMS.items():
            yield f"recipe {name} {label}", lambda at, name=name, form=form: shipped(name, form, at / "run")
    for row in list_variants():
        slot, kind = row["slot"], row["name"]
        for settings in getattr(Slot.every[slot].get(kind), "examples", ({},)):
            yield (
                f"variant {slot}={kind} {json.dumps(settings)}",
                lambda at, slot=slot, kind=kind, settings=settings: of_variant(slot, kind, settings, at / "run"),
            )
    for file in sorted((ROOT / "docs" / "measurements").glob("values-*.json")):
        yield f"verdicts {file.stem.removeprefix('values-')}", lambda at, file=file: verdicts(file)


def made(name: str, limit: int) -> tuple[dict[str, Any], float]:
    """One fingerprint, or why it could not be made within ``limit`` seconds; and the seconds of processor time it took."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not made in {limit} s")

    begun = time.process_time()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            found = json.loads(json.dumps(dict(everything())[name](Path(scratch))))
    except BaseException as error:  # SystemExit and pytest's Skipped among them
        traceback.print_exc(limit=-3)
        found = {"failed": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)
    return found, time.process_time() - begun


def end_with(parent: int) -> None:
    """In a process of the pool: it ends within a second of the one that started it, however that ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def make(names: list[str], out: Path, old: dict[str, Any], jobs: int, limit: int) -> dict[str, Any]:
    """The fingerprints of ``names``, written to ``out`` as they come."""
    results: dict[str, Any] = {name: {"failed": "not reached"} for name in names}

    def write() -> None:
        part = out.with_name(f"{out.name}.part")
        part.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        part.replace(out)

    write()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(130))  # at once: the file has all that was made
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), end_with, (os.getpid(),)) as pool:
        waiting = {pool.submit(made, name, limit): name for name in names}
        for future in as_completed(waiting):
            name = waiting[future]
            try:
                results[name], seconds = future.result()
            except Exception as error:  # the process ended
                results[name], seconds = {"failed": f"{type(error).__name__}: {error}"}, math.nan
            word = next(
                word for word, which in sorted_out({name: old[name]} if name in old else {}, {name: results[name]}) if which
            )
            print(f"{name}: {word} ({seconds:.1f} s)", file=sys.stderr, flush=True)
            write()
    return results


def close(one: Any, other: Any, tolerance: dict[str, float]) -> bool:
    """Equal in all that was there before, numbers within ``tolerance``; a ``reason`` is a sentence, and may be reworded."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(key in other and close(one[key], other[key], tolerance) for key in one if key != "reason")
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(close(a, b, tolerance) for a, b in zip(one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, **tolerance)
    return bool(one == other)


def sorted_out(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """A word, and the fingerprints it is true of. *and more*: all as before, beside a metric that is new."""
    words = ("FAILED", "DIFFERENT", "NOT MADE", "moved within the tolerance", "the same and more", "the same", "new")
    found: dict[str, list[str]] = {word: [] for word in words}
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        failures = [f"{when}: {one['failed']}" for when, one in (("before", before), ("now", after)) if one and "failed" in one]
        if failures:
            found["FAILED"].append(f"{name} {'; '.join(failures)}")
        elif before is None or after is None:
            found["new" if before is None else "NOT MADE"].append(name)
        else:
            unlike = {part: (before.get(part), after.get(part)) for part in before if before[part] != after.get(part)}
            moved = {part: pair for part, pair in unlike.items() if not close(*pair, {"rel_tol": 0.0})}
            far = [part for part, pair in moved.items() if not close(*pair, TOLERANCES.get(part, {"rel_tol": 0.0}))]
            word = (
                "DIFFERENT" if far else "moved within the tolerance" if moved else "the same and more" if unlike else "the same"
            )
            found[word].append(f"{name}: {', '.join(far or moved or unlike)}" if unlike else name)
    return list(found.items())


def main(out: Path, before: Path | None, only: list[str], *, jobs: int, limit: int, compare: bool) -> int:
    """Writes ``out``; with ``before``, compares. ``only``: those whose name contains one of these."""

    def asked(names: Any) -> list[str]:
        return [name for name in names if not only or any(part in name for part in only)]

    old = {} if before is None else json.loads(before.read_text())
    old = {name: old[name] for name in asked(old)}
    names = asked(name for name, _ in everything())
    found = json.loads(out.read_text()) if compare else make(names, out, old, jobs, limit)
    groups = sorted_out(old, {name: found[name] for name in asked(found)})
    for word, which in reversed(groups):
        if word != "the same":
            print("".join(f"  {word}: {name}\n" for name in which), end="")
    print(f"{len(old)} before, {len(found)} now: " + ", ".join(f"{len(which)} {word}" for word, which in groups))
    return 1 if any(which for word, which in groups if word.isupper()) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("--only", metavar="PART", nargs="*", default=[], help="those whose name contains one of these")
    parser.add_argument("--jobs", metavar="N", type=int, default=1)
    parser.add_argument("--limit", metavar="S", type=int, default=600, help="seconds for each, then it is named as failed")
    parser.add_argument("--compare", action="store_true", help="make nothing; compare the two files")
    given = parser.parse_args()
    sys.exit(main(given.out, given.before, given.only, jobs=given.jobs, limit=given.limit, compare=given.compare))
