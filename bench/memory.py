"""Peak memory of a step: what ``train --dry-run`` says beforehand and what a GPU measures, for every shipped recipe.

    python bench/memory.py [--jobs 6] [RECIPE...] [--json FILE]

Each recipe takes 40 real steps in a process of its own, captured as a CUDA graph where it can be. Encoders that are named on
the hub become random ones of the same size. Real data sets are taken from GLASSFORMER_DATA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STEPS = 40
"""Enough for `training.cuda_graph: auto` to capture."""
ENCODERS = {"minilm": (384, 6, 12, 1536), "base": (768, 12, 12, 3072)}


def encoder(folder: Path, name: str) -> Path:
    """A random encoder with the sizes of MiniLM, or of BERT and RoBERTa base, and a tiny tokenizer."""
    import transformers

    sys.path.insert(0, str(ROOT))
    from tests.encoders import tiny_tokenizer

    width, layers, heads, inner = ENCODERS["minilm" if "minilm" in name else "base"]
    config = transformers.BertConfig(
        vocab_size=30_000, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner
    )
    transformers.BertModel(config).save_pretrained(folder)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def measure(name: str) -> dict[str, Any]:
    import glassformer as gf
    from glassformer.experiment import train
    from glassformer.recipe import load_recipe, parent_recipe

    with tempfile.TemporaryDirectory() as scratch:
        short = {"training.steps": STEPS, "training.log_every": 10, "evaluation.every": 1000, "training.epochs": None}
        recipe, changes = load_recipe(name), dict(short)
        if "pretrained" in str(recipe.model.to_dict().get("kind")):
            changes["model.folder"] = str(encoder(Path(scratch) / "encoder", name))
        if recipe.init_from is not None:
            changes["init_from"] = str(gf.train(parent_recipe(recipe), set=short, out=Path(scratch) / "parent").path)
        planned = gf.plan(name, set=changes)
        run = train(name, set=changes, out=Path(scratch) / "run", allow_leaks=True, measure=True)
        peaks = [record["peak_bytes"] for record in run.records() if "peak_bytes" in record]
        form = run.directory.read_environment()["step_form"]
    return {"sum": planned.total_bytes, "traced": planned.peak_bytes, "steps": max(peaks), "form": form}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", action="store_true", help="Measure one recipe here (used by itself).")
    asked = parser.parse_args()
    if asked.one:
        print("\n" + json.dumps(measure(asked.names[0])))
        return
    from glassformer.recipe import built_in_recipes

    def alone(name: str) -> tuple[str, dict[str, Any] | str]:
        done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True)
        return name, json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr[-600:]

    rows: dict[str, Any] = {}
    print("recipe: MB in the sum of parts, MB traced, MB measured in the steps, ratio of traced to measured")
    with ThreadPoolExecutor(asked.jobs) as pool:
        for done in as_completed([pool.submit(alone, name) for name in asked.names or built_in_recipes()]):
            name, row = done.result()
            rows[name] = row
            if asked.json:  # what is done counts, should the machine go away
                asked.json.write_text(json.dumps(rows, indent=1) + "\n")
            if isinstance(row, str):
                print(f"{name}: FAILED {row}", flush=True)
                continue
            ratio = f"{row['traced'] / row['steps']:.2f}" if row["traced"] and row["steps"] else "-"
            figures = [f"{(row[key] or 0) / 1e6:,.1f}" for key in ("sum", "traced", "steps")]
            print(f"{name}: {figures[0]}, {figures[1]}, {figures[2]}, {ratio}", flush=True)


if __name__ == "__main__":
    main()
