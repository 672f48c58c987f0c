"""T5's spans as a pair beside one row, by what a model knows afterwards: exact answers about people who are only in the text.

    python bench/spans.py --out FILE.json [--seeds 0 1 2] [--people 300] [--steps 1000]

A made-up register is read with hidden spans (objective spans): by a decoder (``form: row``, two layers), and by an encoder and
a decoder of one layer each (``form: pair``). Both hide the same spans of the same lines. Each is then fine-tuned on questions
about some of the people, as one row (answers) or as a pair (translate), and asked about others.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.foundation.files import write_json

FORMS: dict[str, dict[str, Any]] = {
    "row": {"model": {"layers": 2}, "objective": "answers"},
    "pair": {"model": {"kind": "encoder-decoder", "layers": 1}, "objective": "translate"},
}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--people", type=int, default=300)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--fine", type=int, default=60, help="steps of fine-tuning")
    given = parser.parse_args(arguments)
    found: dict[str, Any] = {name: {} for name in FORMS}
    for seed in given.seeds:
        for name in FORMS:
            with tempfile.TemporaryDirectory() as scratch:
                one = asked(name, seed, given.people, given.steps, given.fine, Path(scratch))
            found[name][f"seed {seed}"] = one
            print(f"{name} seed {seed}: " + ", ".join(f"{key} {value:.3f}" for key, value in one.items()), flush=True)
            write_json(given.out, {"people": given.people, "steps": given.steps, "fine": given.fine, "forms": found})
    return found


def asked(name: str, seed: int, people: int, steps: int, fine: int, folder: Path) -> dict[str, float]:
    """One model: its loss on the spans, its exact answers, its size and its time."""
    import glassformer as gf
    from glassformer.knowledge.worlds import WorldConfig

    form, began = FORMS[name], time.process_time()
    register = {"people": people, "sound": 0.5, "seed": 0}
    recipe = {
        "data": {"set": {"kind": "world", **register}},
        "tokenizer": {"kind": "bpe", "vocab": 512, "special": []},
        "objective": {"kind": "spans", "salient": 0.5, "cut": "none", "learn": "answer", "form": name},
        "model": {"width": 96, "heads": 4, "context": 64, "positions": "rotary", **form["model"]},
        "training": {"steps": steps, "batch_size": 64, "lr": 3.0e-3, "weight_decay": 0.01, "optimizer": "muon"}
        | {"schedule": {"kind": "warmup-stable-decay", "warmup": 50, "decay": 0.5}},
        "evaluation": {"every": steps},
    }
    parent = gf.train(recipe, seed=seed, out=folder / "spans")
    data: dict[str, Any] = recipe["data"]  # type: ignore[assignment]
    if name == "pair":
        world = WorldConfig(**register).files()
        for group in ("train", "validation"):
            questions = world.questions(group).read_text(encoding="utf-8")
            (folder / f"{group}.tsv").write_text("source\ttarget\n" + questions, encoding="utf-8")
        data = {"path": str(folder / "train.tsv"), "validation": str(folder / "validation.tsv")}
    training = {**recipe["training"], "steps": fine, "lr": 5.0e-4}  # type: ignore[dict-item]
    child = {**recipe, "data": data, "objective": form["objective"], "init_from": str(folder / "spans")}
    run = gf.train({**child, "training": training, "evaluation": {"every": fine}}, seed=seed, out=folder / "answers")
    result = run.evaluate("validation")
    loss = parent.evaluate("train").metrics["loss"].value  # all of the register's text is read, whoever is asked about
    return {
        "loss of the spans": float(loss),
        "exact answers": float(result.metrics["exact_match"].value or 0.0),
        "parameters": float(sum(tensor.numel() for tensor in run.model.parameters())),
        "cpu seconds": time.process_time() - began,
    }


if __name__ == "__main__":
    main()
