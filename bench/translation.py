"""German to English on one GPU: settings tried on validation, seeds on test 2016, scores in three tokenisations, speed.

    export GLASSFORMER_DATA=FOLDER            # with multi30k/
    python bench/translation.py try --out $OUT/try.json [--only NAME]... [--seconds 420]
    python bench/translation.py seeds multi30k --seeds 0 1 2 3 4 5 --out $OUT/multi30k.json [--set training.epochs=1]
    python bench/translation.py seeds multi30k-exercise --seeds 0 1 2 --checkpoint best --out $OUT/exercise.json
    python bench/translation.py score FILE.json ...    # needs spacy and sacrebleu, no GPU
    python bench/translation.py speed --out $OUT/speed.json

``try`` and everything that chooses read the validation pairs alone; ``seeds`` translates the test file once for each seed.
Both write the translations into their file as soon as they are there, so that ``score`` can be run elsewhere: BLEU by
sacrebleu (13a, cased and in lower case) and, as the public exercise counts it, over lower-cased tokens of spacy.blank("en").
A run's time is that of one whole training from nothing, data and checks included.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.foundation.config import parse_assignment
from glassformer.foundation.files import write_json

SETTINGS: dict[str, dict[str, Any]] = {
    "recipe": {},
    "dropout-2": {"model.dropout": 0.2},
    "dropout-4": {"model.dropout": 0.4},
    "bpe-4000": {"tokenizer.vocab": 4000},
    "bpe-12000": {"tokenizer.vocab": 12000, "model.layers": 3},
    "epochs-20": {"training.epochs": 20},
    "epochs-50": {"training.epochs": 50},
    "lr-1e-3": {"training.lr": 1.0e-3},
    "lr-4e-3": {"training.lr": 4.0e-3},
    "adamw": {"training.optimizer": {"kind": "adamw", "betas": [0.9, 0.98]}, "training.lr": 1.0e-3},
    "batch-256": {"training.batch_size": 256},
    "three-wide": {"model.layers": 3, "model.feedforward.inner": 1024},
}
"""Changes of the recipe multi30k; chosen between on the validation pairs."""


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    trying, seeds, score, speed = (what.add_parser(name) for name in ("try", "seeds", "score", "speed"))
    for verb in (trying, seeds):
        verb.add_argument("--out", type=Path, required=True)
        verb.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
        verb.add_argument("--runs", type=Path, help="keep the runs here")
    trying.add_argument("--only", action="append", choices=list(SETTINGS))
    trying.add_argument("--seconds", type=float, default=1e9, help="begin no further setting after this long")
    seeds.add_argument("recipe")
    seeds.add_argument("--seeds", type=int, nargs="+", default=list(range(6)))
    seeds.add_argument("--checkpoint", default="last", choices=("last", "best"))
    seeds.add_argument("--split", default="test", choices=("test", "validation"))
    score.add_argument("files", type=Path, nargs="+")
    speed.add_argument("--out", type=Path, required=True)
    speed.add_argument("--rows", type=int, default=256)
    speed.add_argument("--tokens", type=int, default=40)
    speed.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    if given.what == "score":
        return {str(file): scored(file) for file in given.files}
    if given.what == "speed":
        return measured_speed(given.rows, given.tokens, given.rounds, given.out)
    changes = dict(parse_assignment(text) for text in given.set)
    with tempfile.TemporaryDirectory() as scratch:
        runs = given.runs or Path(scratch)
        if given.what == "try":
            return try_settings(given.only or list(SETTINGS), changes, given.seconds, runs, given.out)
        return run_seeds(given.recipe, changes, given.seeds, given.checkpoint, given.split, runs, given.out)


def trained(recipe: str, changes: Mapping[str, Any], seed: int, folder: Path, *, checkpoint: str, split: str) -> dict[str, Any]:
    """One run: its time, its size, its loss, and the translations of one split."""
    import glassformer as gf

    started = time.monotonic()
    run = gf.train(recipe, set=changes, seed=seed, out=folder)
    seconds = time.monotonic() - started
    items = run.data.split(split)
    began = time.monotonic()
    found = run.translate(items, checkpoint=checkpoint)
    evaluation = run.evaluate(split, checkpoint=checkpoint)
    return {
        "seed": seed,
        "split": split,
        "seconds": seconds,
        "seconds_of_translation": time.monotonic() - began,
        "parameters": sum(tensor.numel() for tensor in run.model.parameters()),
        "metrics": {name: one.to_dict() for name, one in evaluation.metrics.items()},
        "baselines": {name: {m: f.to_dict() for m, f in of.items()} for name, of in evaluation.baselines.items()},
        "signatures": evaluation.details.get("signatures", {}),
        "curve": {r["step"]: r["validation_loss"] for r in run.records() if "validation_loss" in r},
        "translations": [one.text for one in found],
        "references": list(items.targets),
    }


def try_settings(names: Sequence[str], changes: Mapping[str, Any], seconds: float, runs: Path, out: Path) -> dict[str, Any]:
    """Each setting once, with its translations of the validation pairs."""
    begun, found = time.monotonic(), dict[str, Any]()
    for name in names:
        if time.monotonic() - begun > seconds:
            break
        settings = {**SETTINGS[name], **changes}
        found[name] = trained("multi30k", settings, 0, runs / name, checkpoint="last", split="validation")
        _report(name, found[name])
        write_json(out, {"recipe": "multi30k", "set": dict(changes), "runs": found})
    return found


def run_seeds(
    recipe: str, changes: Mapping[str, Any], seeds: Sequence[int], checkpoint: str, split: str, runs: Path, out: Path
) -> dict[str, Any]:
    """One recipe by seed, with its translations of the split."""
    found: dict[str, Any] = {}
    for seed in seeds:
        found[f"seed {seed}"] = trained(recipe, changes, seed, runs / f"{seed}", checkpoint=checkpoint, split=split)
        _report(f"{recipe} seed {seed}", found[f"seed {seed}"])
        write_json(out, {"recipe": recipe, "set": dict(changes), "checkpoint": checkpoint, "runs": found})
    return found


def _report(name: str, one: Mapping[str, Any]) -> None:
    metrics = {
        key: one["metrics"][key]["value"] for key in ("loss", "perplexity", "bleu", "bleu_lowercase") if key in one["metrics"]
    }
    shown = ", ".join(f"{key} {value:.3f}" for key, value in metrics.items())
    times = f"{one['seconds']:.0f} s, translations {one['seconds_of_translation']:.0f} s"
    print(f"{name}: {one['split']} {shown}; {one['parameters']:,} parameters; trained in {times}", flush=True)


def scored(file: Path) -> dict[str, Any]:
    """BLEU of every run of a file in three tokenisations, and over seeds their mean with a t interval."""
    import sacrebleu
    import spacy
    from scipy.stats import t

    tokenizer = spacy.blank("en").tokenizer

    def tokens(text: str) -> str:
        return " ".join(token.text for token in tokenizer(text.lower()) if token.text.strip())

    rows: dict[str, dict[str, float]] = {}
    for name, run in json.loads(file.read_text())["runs"].items():
        texts, references = run["translations"], run["references"]
        exercise = [tokens(text) for text in texts], [[tokens(text) for text in references]]
        rows[name] = {
            "13a": sacrebleu.corpus_bleu(texts, [references]).score,
            "13a lower": sacrebleu.corpus_bleu(texts, [references], lowercase=True).score,
            "exercise": sacrebleu.corpus_bleu(*exercise, tokenize="none", force=True).score,
            "perplexity": run["metrics"]["perplexity"]["value"],
            "seconds": run["seconds"],
        }
        print(f"{file.stem} {name}: " + ", ".join(f"{key} {value:.2f}" for key, value in rows[name].items()), flush=True)
    if len(rows) > 1 and all(name.startswith("seed") for name in rows):
        for key in next(iter(rows.values())):
            values = [row[key] for row in rows.values()]
            mean, n = sum(values) / len(values), len(values)
            sd = (sum((value - mean) ** 2 for value in values) / (n - 1)) ** 0.5
            half = float(t.ppf(0.975, n - 1)) * sd / n**0.5
            print(f"{file.stem} {key}: mean {mean:.2f} [{mean - half:.2f}, {mean + half:.2f}] over {n} seeds", flush=True)
    return rows


def measured_speed(rows: int, tokens: int, rounds: int, out: Path) -> dict[str, Any]:
    """Greedy translations of a fixed length by us and by transformers' ``generate`` for the same sizes, in turns."""
    import numpy as np
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    from glassformer.foundation.runtime import choose_device
    from glassformer.generation.beams import BeamRule
    from glassformer.generation.translation import TranslationRule, translate
    from glassformer.model.network import MODELS

    device, vocabulary, length = choose_device("auto"), 8003, 20
    start, end, pad = vocabulary - 3, vocabulary - 2, vocabulary - 1
    settings = {
        "width": 256,
        "layers": 4,
        "heads": 8,
        "context": 64,
        "block": "post",
        "feedforward": {"kind": "gelu", "inner": 512},
    }
    ours = MODELS.parse({"kind": "encoder-decoder", **settings}).build(vocabulary, seed=0).eval().to(device)
    theirs = BartForConditionalGeneration(
        BartConfig(
            vocab_size=vocabulary,
            d_model=256,
            encoder_layers=4,
            decoder_layers=4,
            encoder_attention_heads=8,
            decoder_attention_heads=8,
            encoder_ffn_dim=512,
            decoder_ffn_dim=512,
            max_position_embeddings=64,
            pad_token_id=pad,
            bos_token_id=start,
            eos_token_id=end,
            decoder_start_token_id=start,
            forced_eos_token_id=None,
        )
    )
    theirs = theirs.eval().to(device)
    sources = [np.append(np.random.default_rng(n).integers(0, start, length - 1), end) for n in range(rows)]
    ids_BS = torch.from_numpy(np.stack(sources)).to(device)
    rule = TranslationRule(start, pad, BeamRule(end_id=end, max_new_tokens=tokens, banned=[start, end, pad]))

    def by_us() -> int:
        return sum(len(one[0].ids) for one in translate(ours, sources, rule, at_once=rows))

    def by_them() -> int:
        made = theirs.generate(ids_BS, min_new_tokens=tokens, max_new_tokens=tokens, do_sample=False, num_beams=1)
        return (made.shape[1] - 1) * rows

    timed: dict[str, list[float]] = {"glassformer": [], "transformers": []}
    for turn in range(rounds + 1):
        for name, call in (("glassformer", by_us), ("transformers", by_them)):
            began = time.perf_counter()
            with torch.no_grad():
                made = call()
            assert made == rows * tokens, (name, made)
            if device.type == "cuda":
                torch.cuda.synchronize()
            if turn:  # the first warms up
                timed[name].append(time.perf_counter() - began)
    rates = {name: rows * tokens / min(seconds) for name, seconds in timed.items()}
    result = {"device": str(device), "rows": rows, "tokens": tokens, "seconds": timed, "tokens_per_second": rates}
    result["ratio"] = rates["glassformer"] / rates["transformers"]
    print(
        f"{rates['glassformer']:,.0f} tokens/s by us, {rates['transformers']:,.0f} by transformers: {result['ratio']:.2f} times"
    )
    write_json(out, result)
    return result


if __name__ == "__main__":
    main()
