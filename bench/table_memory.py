"""A large csv file -> memory of reading, notes, encoding and baselines, stage by stage in one process; or of a whole training.

python bench/table_memory.py --encoder FOLDER [--mb 100] [--baselines | --train]
python bench/table_memory.py --readers [--mb 100]

Writes a csv of made-up sentences (words by Zipf's law, two labels) to a temporary folder. Prints one JSON document: the peak of
the resident memory after each stage in MB, and its seconds. The first stage is what the imports take. ``--train``: the peak of
`glassformer train` on it in a process of its own (6 steps, 0.2 % of the rows for validation), with its baselines.
``--readers``: each reader of dirty_tables.py gives the rows as tuples of texts, in a process of its own: the peak before and
after, and CPU seconds.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

WORDS, LENGTHS = 30_000, (8, 24)


def write(file: Path, megabytes: int) -> int:
    """The number of rows."""
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, WORDS + 1)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = ["".join(letters[rng.integers(0, len(letters), rng.integers(2, 9))]) for _ in range(WORDS)]
    rows, size = 0, megabytes << 20
    with file.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["text", "label"])
        while stream.tell() < size:
            drawn = rng.choice(WORDS, size=2000 * LENGTHS[1], p=chances / chances.sum()).tolist()
            for length in rng.integers(*LENGTHS, 2000).tolist():
                chosen = [drawn.pop() for _ in range(length)]
                out.writerow([" ".join(words[at] for at in chosen), ("low", "high")[sum(chosen) % 2]])
                rows += 1
    return rows


def trained(file: Path, encoder: str) -> dict[str, Any]:
    """The peak of a whole training, and its phases."""
    out = file.parent / "run"
    settings = ["data.split.validation=0.002", "training.steps=6", "training.batch_size=16", "evaluation.every=1000"]
    settings += [f"model.folder={encoder}", "model.context=64", "checkpoint.best=false"]
    words = [sys.executable, "-m", "glassformer", "train", str(file), "--out", str(out), "--quiet", "--timing"]
    began = time.perf_counter()
    subprocess.run([*words, *(word for one in settings for word in ("--set", one))], check=True, stdout=sys.stderr)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "peak_mb": round(used.ru_maxrss / 1024),
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "phases": json.loads((out / "timing.json").read_text()),
        "baselines_mb": round((out / "baselines.npz").stat().st_size / 2**20, 1),
    }


def read_by(reader: str, file: Path) -> dict[str, Any]:
    """What one reader takes of a process, after it has read a tiny table."""
    from dirty_tables import NAMED, READERS

    def used() -> tuple[int, float]:
        use = resource.getrusage(resource.RUSAGE_SELF)
        return use.ru_maxrss // 1024, use.ru_utime + use.ru_stime

    tiny = file.with_name("tiny.csv")
    tiny.write_text("text,label\na,b\n")
    READERS[reader](tiny, NAMED)
    before_mb, before = used()
    rows = READERS[reader](file, NAMED)
    peak_mb, after = used()
    return {"rows": len(rows), "before_mb": before_mb, "peak_mb": peak_mb, "cpu_seconds": round(after - before, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder")
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--baselines", action="store_true", help="fit the bags of words too")
    parser.add_argument("--train", action="store_true", help="a whole training instead, in a process of its own")
    parser.add_argument("--readers", action="store_true", help="reading alone, by ours, by pandas and by pyarrow")
    options = parser.parse_args()
    if options.readers:
        from dirty_tables import READERS

        with tempfile.TemporaryDirectory() as place:
            found: dict[str, Any] = {"rows": write(file := Path(place) / "table.csv", options.mb)}
            for reader in READERS:
                with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
                    found[reader] = fresh.submit(read_by, reader, file).result()
            print(json.dumps(found, indent=2))
        return
    if options.encoder is None:
        parser.error("give --encoder FOLDER, or --readers")
    if options.train:
        with tempfile.TemporaryDirectory() as place:
            rows = write(file := Path(place) / "table.csv", options.mb)
            print(json.dumps({"rows": rows, "bytes": file.stat().st_size, **trained(file, options.encoder)}, indent=2))
        return
    from glassformer.data.config import DataConfig
    from glassformer.data.labels.label_batches import encode_texts
    from glassformer.data.labels.labelled_texts import Labels
    from glassformer.evaluation.label_baselines import LABEL_BASELINES
    from glassformer.networks.pretrained_encoder import PretrainedConfig

    with tempfile.TemporaryDirectory() as place:
        file, stages, began = Path(place) / "table.csv", dict[str, Any](), time.perf_counter()
        rows = write(file, options.mb)

        def stage(name: str) -> None:
            nonlocal began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            stages[name] = {"peak_mb": round(peak), "seconds": round(time.perf_counter() - began, 1)}
            began = time.perf_counter()

        tokenizer = PretrainedConfig(folder=options.encoder).tokenizer()
        stage("imports, the csv written")
        labels = Labels(DataConfig(path=str(file)))
        stage("read")
        labels.record  # noqa: B018 - with its notes: copies, near-duplicates
        stage("notes")
        train = labels.split("train")
        encode_texts(tokenizer, train, 128)
        stage("encoded")
        if options.baselines:
            for kind in LABEL_BASELINES.values():
                kind.fit(train)
            stage("baselines")
        print(json.dumps({"rows": rows, "bytes": file.stat().st_size, "stages": stages}, indent=2))


if __name__ == "__main__":
    main()
