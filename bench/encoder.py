"""An encoder tuned on SST-2 by Glassformer and by transformers' Trainer: whole programs in turns, each in a fresh process.

    python bench/encoder.py --encoder FOLDER [--rounds 2] [--epochs 3] [--json FILE]

Both train the same folder in full on the same rows (batches of 64 of like length, AdamW, 2e-4 with 30 steps of warm-up, bf16
where the machine has it), measure the dev file after every epoch and save a checkpoint each time. Printed are the seconds of
the whole program, of what comes before its first step, of its steps, and the most memory that torch allocated. GLASSFORMER_DATA
has sst2. A folder without weights gets random ones: for times, not for accuracies.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

BATCH, RATE, WARMUP = 64, 2e-4, 30


def ours(encoder: str, epochs: int, out: Path) -> dict[str, Any]:
    import torch

    import glassformer as gf

    settings = {"model.folder": encoder, "training.epochs": epochs, "data.validation": "dev", "checkpoint.best": False}
    settings |= {"training.optimizer": "adamw", "model.pool": "own"}
    run = gf.train("sst2-minilm", set=settings, out=out)
    accuracy = [record["validation_accuracy"] for record in run.records() if "validation_accuracy" in record]
    spent = json.loads((run.folder / "timing.json").read_text())["starts"][0]["seconds"]
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    return {"steps": spent["steps"] + spent.get("first step", 0.0), "by phase": spent, "accuracy": accuracy[-1], "peak": peak}


def trainer(encoder: str, epochs: int, out: Path) -> dict[str, Any]:
    import numpy as np
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=2)

    def rows(name: str) -> list[dict[str, Any]]:
        lines = (Path(os.environ["GLASSFORMER_DATA"]) / "sst2" / name).read_text(encoding="utf-8").splitlines()
        texts = tokenizer([line[2:] for line in lines], truncation=True, max_length=96)["input_ids"]
        return [{"input_ids": ids, "labels": int(line[0])} for line, ids in zip(lines, texts)]

    class Times(transformers.TrainerCallback):  # type: ignore[misc]
        began = steps = 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.steps += time.perf_counter() - self.began

    times, on_gpu = Times(), torch.cuda.is_available()
    arguments = transformers.TrainingArguments(
        str(out),
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        num_train_epochs=epochs,
        learning_rate=RATE,
        weight_decay=0.01,
        warmup_steps=WARMUP,
        bf16=on_gpu,
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_steps=100,
        report_to=[],
        disable_tqdm=True,
    )
    done = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=rows("train.txt"),
        eval_dataset=rows("dev.txt"),
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda found: {"accuracy": float((np.argmax(found[0], 1) == found[1]).mean())},
        callbacks=[times],
    )
    result = done.train()
    peak = torch.cuda.max_memory_allocated() if on_gpu else None
    accuracy = [entry["eval_accuracy"] for entry in done.state.log_history if "eval_accuracy" in entry]
    return {"steps": times.steps, "trained": result.metrics["train_runtime"], "accuracy": accuracy[-1], "peak": peak}


def with_weights(encoder: Path, folder: Path) -> Path:
    """The folder; a copy with random weights where it has none."""
    if (encoder / "model.safetensors").exists():
        return encoder
    import torch
    import transformers

    shutil.copytree(encoder, folder)
    torch.manual_seed(0)
    transformers.BertModel(transformers.AutoConfig.from_pretrained(encoder)).save_pretrained(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=["ours", "trainer"], help="One program here (used by itself).")
    asked = parser.parse_args()
    programs = {"ours": ours, "trainer": trainer}
    with tempfile.TemporaryDirectory() as scratch:
        if asked.one:
            print("\n" + json.dumps(programs[asked.one](str(asked.encoder), asked.epochs, Path(scratch) / "run")))
            return
        encoder = with_weights(asked.encoder, Path(scratch) / "encoder")
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}
        for _ in range(asked.rounds):
            for name in programs:
                began = time.perf_counter()
                command = [sys.executable, __file__, "--encoder", str(encoder), "--epochs", str(asked.epochs), "--one", name]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    sys.exit(f"{name} failed: {done.stderr[-2000:]}")
                row = {"whole": time.perf_counter() - began, **json.loads(done.stdout.splitlines()[-1])}
                found[name].append(row)
                print(name, json.dumps(row), flush=True)
    for figure in ("whole", "steps", "peak"):
        values = [[row[figure] for row in found[name]] for name in programs]
        if None not in values[0] + values[1]:
            print(f"{figure}: ours {median(values[0]):.4g}, Trainer {median(values[1]):.4g}, Trainer over ours "
                  f"{median(values[1]) / median(values[0]):.2f}")  # fmt: skip
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
