"""Probabilities of a classifier by `predict`, by transformers (or peft) on its export and by onnxruntime on its ONNX export.

python bench/predict_equality.py RUN TABLE [--first 40]

RUN: a tuned encoder with `model.pool: own`, of texts or of pairs. TABLE: .jsonl with the columns of its training, or lines of
`label text`. Prints as JSON the largest differences, and the lowest, median and highest confidence, which say whether the run
has learned anything.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import glassformer as gf


def opened(folder: Path, encoder: str) -> Any:
    """The model of an export: by transformers alone, or by peft if it is an adapter of ``encoder``."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    if not (folder / "adapter_config.json").exists():
        return AutoModelForSequenceClassification.from_pretrained(folder).eval()
    from peft import PeftModel

    base = AutoModelForSequenceClassification.from_pretrained(encoder, config=AutoConfig.from_pretrained(folder))
    return PeftModel.from_pretrained(base, folder).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--first", type=int, default=40)
    options = parser.parse_args()
    run = gf.load(options.run)
    reading: dict[str, Any] = run.reading_of_labels()
    lines = options.table.read_text(encoding="utf-8").splitlines()[: options.first]
    json_lines = options.table.suffix == ".jsonl"
    rows = [json.loads(line) if json_lines else dict(zip(("label", "text"), line.split(" ", 1))) for line in lines]
    columns = [reading.get("text_column") or "text", *([reading["pair_column"]] if reading.get("pair_column") else [])]
    texts = [[str(row[column]).strip() for row in rows] for column in columns]
    own = run.predict(texts[0], pairs=texts[1] if len(texts) > 1 else None, temperature=False)
    ours_NC = np.array([[one.probabilities[name] for name in run.label_names] for one in own])
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as place:
        folder = run.save_pretrained(Path(place) / "hf").folder
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = opened(folder, run.recipe.model.folder)
        batch = tokenizer(*texts, truncation="longest_first", padding=True, return_tensors="pt")
        with torch.no_grad():
            theirs_NC = model(**batch).logits.softmax(-1).numpy()
        sure_N = ours_NC.max(axis=1)
        found: dict[str, Any] = {
            "texts": len(rows),
            "cut": int((batch["attention_mask"].sum(1) == run.recipe.model.context).sum()),
        }
        found |= {"opened": type(model).__name__, "confidence": [float(np.quantile(sure_N, at)) for at in (0, 0.5, 1)]}
        found["transformers"] = float(np.abs(ours_NC - theirs_NC).max())
        try:
            import onnxruntime
        except ImportError:
            found["onnxruntime"] = None
        else:
            graph = run.save_onnx(Path(place) / "onnx").folder / "model.onnx"
            session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
            named = {one.name for one in session.get_inputs()}
            (logits,) = session.run(None, {name: array.numpy() for name, array in batch.items() if name in named})
            odds = np.exp(logits - logits.max(axis=1, keepdims=True))
            found["onnxruntime"] = float(np.abs(ours_NC - odds / odds.sum(axis=1, keepdims=True)).max())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
