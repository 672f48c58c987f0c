"""How near honest runs come to "the judged text better predicted than its training text" (study/planning/conditions.py).

On pairs of real texts (of one source, and of two) a small model and seven harmless changes are trained. Printed: (gap of the
change - smallest gap of the baseline and the counting baselines) / loss. The rule fires below -KNOWN_BY.
``python bench/known_text.py OUT.jsonl`` appends one record a run and goes on where it stopped; it needs GLASSFORMER_DATA.
"""

import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from glassformer.experiment import train
from glassformer.recipe import Recipe, changed
from glassformer.study.planning.conditions import KNOWN_BY, known_text
from glassformer.study.running.trial_facts import text_known

CHANGES: dict[str, dict[str, Any]] = {
    "base": {},
    "base1": {"seed": 1},
    "layer": {"model.norm": "layer"},
    "w16": {"model.width": 16},
    "w64": {"model.width": 64},
    "drop": {"model.dropout": 0.3},
    "lr3": {"training.lr": 0.012},
    "steps4": {"training.steps": 1000},
}


def lines(name: str) -> list[str]:
    text = (Path(os.environ["GLASSFORMER_DATA"]) / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip()]


def pairs() -> dict[str, tuple[list[str], list[str]]]:
    """Training text and judged text, by name; ``x-`` are of two sources."""
    play, wiki, valid = lines("tinyshakespeare/input.txt"), lines("wikitext-2/train.txt"), lines("wikitext-2/valid.txt")
    speech, obama, names = lines("speeches/train_lm.txt"), lines("speeches/test_lm_obama.txt"), lines("names/wiki.txt")
    english, more_english = lines("multi30k/train.en"), lines("multi30k/val.en")
    reviews, more_reviews = ([line[2:] for line in lines(f"sst2/{name}.txt")] for name in ("train", "dev"))
    passages, more = ([json.loads(line)["passage"] for line in lines(f"boolq/{name}.jsonl")] for name in ("train", "dev"))
    mixed = speech[:]
    random.Random(1).shuffle(mixed)
    parts = {f"sh{k}": (play[k * len(play) // 6 :], play[(k + 4) % 6 * len(play) // 6 :]) for k in range(5)}
    return parts | {
        "wiki": (wiki, valid),
        "wiki2": (wiki[9000:], wiki[3000:]),
        "sp-hb": (speech, lines("speeches/test_lm_hbush.txt")),
        "sp-ob": (speech, obama),
        "sp-shuf": (mixed[300:], mixed[:300]),
        "en": (english, more_english),
        "de": (lines("multi30k/train.de"), lines("multi30k/val.de")),
        "names": (names[1200:], names[:1200]),
        "sst": (reviews, more_reviews),
        "boolq": (passages, more),
        "x-wiki-en": (wiki, more_english),
        "x-en-wiki": (english, valid),
        "x-sp-sst": (speech, more_reviews),
        "x-sh-boolq": (play, more),
        "x-sst-sp": (reviews, obama),
        "x-names-en": (names, more_english),
        "x-boolq-names": (passages, names),
    }


def beginning(rows: list[str], characters: int) -> str:
    found = ""
    for row in rows:
        found += row + "\n"
        if len(found) > characters:
            break
    return found


def measured(train_text: Path, judged_text: Path, change: dict[str, Any], folder: Path) -> dict[str, Any]:
    values = {
        "data": {"path": str(train_text), "validation": str(judged_text), "document": "line"},
        "tokenizer": "char",
        "model": {"width": 32, "layers": 2, "heads": 2, "context": 64, "bias": False, "positions": "rotary", "norm": "rms"},
        "training": {"steps": 250, "batch_size": 16, "lr": 0.004, "weight_decay": 0.1, "clip": 1.0, "device": "cpu"},
        "evaluation": {"every": 5000},
        "checkpoint": {"every": 5000},
    }
    values["training"] |= {"optimizer": "muon", "schedule": {"kind": "linear", "final": 0.0}}
    run = train(Recipe.parse(changed(values, change)), out=folder, threads=1)
    return text_known(run, run.recipe.objective, run.data.split("validation"))


def summary(records: list[dict[str, Any]]) -> None:
    known = {(one["text"], one["variant"]): one["known"] for one in records}
    distances, alarms = [], 0
    for (text, variant), own in known.items():
        if variant == "base" or (text, "base") not in known:
            continue
        base = known[text, "base"]
        gaps = {name: one["judged"] - one["trained"] for name, one in base.items() if name != "uniform"}
        gap = own["run"]["judged"] - own["run"]["trained"]
        distances.append(((gap - min(gaps.values())) / own["run"]["trained"], text, variant))
        alarms += bool(known_text(base, own))
    print(
        f"{alarms} alarms in {len(distances)} comparisons on {len({text for text, _ in known})} pairs (alarm below -{KNOWN_BY})"
    )
    for distance, text, variant in sorted(distances)[:5]:
        print(f"{distance:+.4f}  {text}  {variant}")


def main(out: Path) -> None:
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []
    done = {(one["text"], one["variant"]) for one in records}
    with tempfile.TemporaryDirectory() as place:
        for name, texts in pairs().items():
            files = Path(place) / f"{name}-train.txt", Path(place) / f"{name}-judged.txt"
            for file, rows, characters in zip(files, texts, (150_000, 22_000)):
                file.write_text(beginning(rows, characters), encoding="utf-8")
            for variant, change in CHANGES.items():
                if (name, variant) not in done:
                    found = measured(*files, change, Path(place) / f"{name}-{variant}")
                    records.append({"text": name, "variant": variant, "known": found})
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(records[-1]) + "\n")
    summary(records)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
