"""Every mixer, every way to tell positions apart and every merge, each trained once through one recipe.

    python bench/train_variants.py [RECIPE] [--seed 0] [--set KEY=VALUE]... [--json FILE]

One change at a time from the recipe, one seed: this shows that each trains and how far it gets, and decides nothing
(`glassformer compare` does). A variant that breaks a law is trained with leaks allowed and marked TAINTED. A mixer that the
recipe's positions would have no effect in gets learned ones. Prints a Markdown table with validation perplexity by token.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer.foundation.config import parse_assignment
from glassformer.model.config import ModelConfig
from glassformer.model.slots import MERGES, MIXERS, POSITIONS
from glassformer.recipe import load_recipe


def changes_of(recipe: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One change each; the recipe as it is comes first."""
    model = load_recipe(recipe, given).model
    assert isinstance(model, ModelConfig)
    base = model.of_layer(0)
    found: list[dict[str, Any]] = [{}]
    for key, slot, own in (
        ("mixer", MIXERS, base.mixer.kind),
        ("positions", POSITIONS, base.positions.kind),
        ("merge", MERGES, base.merge.kind),
    ):
        found += [{f"model.{key}": name} for name in slot.names() if name != own]
    for change in found:
        mixer = change.get("model.mixer")
        if mixer is not None and POSITIONS.get(base.positions.kind).applies_to not in MIXERS.get(mixer).accepts_positions:
            change["model.positions"] = "learned"
    return found


def measure(recipe: str, change: Mapping[str, Any], given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run = gf.train(recipe, set={**given, **change}, seed=seed, out=Path(folder) / "run", allow_leaks=True)
        seconds = time.perf_counter() - started
        result = run.evaluate(allow_leaks=True)
        return {
            "change": dict(change),
            "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
            "perplexity": result.metrics["perplexity"].to_dict(),
            "untrained": result.baselines["untrained"]["perplexity"].value,
            "bigram": result.baselines["bigram"]["perplexity"].value,
            "tainted": run.tainted is not None,
            "seconds": round(seconds, 1),
        }


def row(result: Mapping[str, Any]) -> str:
    change = ", ".join(f"{key.removeprefix('model.')}={value}" for key, value in result["change"].items()) or "the recipe"
    figure, mark = result["perplexity"], " TAINTED" if result["tainted"] else ""
    interval = f"{figure['value']:.1f} [{figure['low']:.1f}, {figure['high']:.1f}]{mark}"
    return f"| {change} | {result['parameters']:,} | {interval} | {result['seconds']:.0f} s |"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="speeches-lm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, default=None)
    asked = parser.parse_args(words)
    given = dict(parse_assignment(text) for text in asked.set)
    print("| change | parameters | validation perplexity | training |\n|---|---:|---:|---:|")
    results = []
    for change in changes_of(asked.recipe, given):
        results.append(measure(asked.recipe, change, given, asked.seed))
        print(row(results[-1]), flush=True)
    print(f"\nsmoothed bigram {results[0]['bigram']:.1f}, untrained {results[0]['untrained']:.1f}")
    if asked.json is not None:
        asked.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
