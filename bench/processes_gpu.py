"""One run on 1, 2 and 4 processes that share one GPU, in bf16 with captured steps: the same sha256 of weights and optimizer?

    python bench/processes_gpu.py                             # widths 32 and 384, one run after another: a few minutes
    python bench/processes_gpu.py --widths 384 --jobs 4 --steps 20   # four settings at a time: bits, but no times
    python bench/processes_gpu.py --device cpu --widths 32    # without a GPU: float32, nothing captured

Through the real command line: AdamW and Muon, with and without dropout, 4 pieces. Processes that share a GPU sum their
gradients through the host (gloo), so this says nothing about NCCL or about speed on several GPUs. One after another
(``--jobs 1``) a run whose batch is not cut is timed too. Prints one line for each run and a JSON document at the end; exit code
1 where bits differ, a run failed, or a step was not captured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from glassformer.runs.checkpoint import checkpoint_checksums
from glassformer.runs.directory import RunDirectory

SIZES = {
    32: {"model.width": 32, "model.layers": 2, "model.heads": 2, "model.context": 32, "training.batch_size": 16},
    384: {"model.width": 384, "model.layers": 6, "model.heads": 6, "model.context": 256, "training.batch_size": 64},
}
LIMIT = 100  # seconds for one run; one that hangs must not hold the GPU


def trained(out: Path, processes: int, settings: dict[str, Any]) -> dict[str, Any]:
    """One run, and what it left behind; what it said where it failed."""
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    command = [sys.executable, "-m", "glassformer", "train", "docstrings-char", "--out", str(out), "--quiet", *sets]
    command += ["--processes", str(processes)]
    try:
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT, env=one_thread)
    except subprocess.TimeoutExpired:
        return {"failed": f"it did not end within {LIMIT} s"}
    if done.returncode:
        return {"failed": f"exit code {done.returncode}: {done.stderr.strip()[-2000:]}"}
    run = RunDirectory(out)
    environment, seconds = run.read_environment(), run.timings()[-1]["seconds"]
    return {
        "sha256": checkpoint_checksums(run, run.steps()[-1]),
        "precision": environment["precision"],
        "form": environment["step_form"],
        "device": environment["device_name"],
        "torch": environment["torch"],
        "law": environment["checks"]["judged"].get("processes"),
        "ms": 1000 * seconds["steps"] / (settings["training.steps"] - 1),
    }


def compared(place: Path, name: str, settings: dict[str, Any], numbers: list[int], uncut: bool) -> dict[str, Any]:
    """One setting on every number of processes: are the bits the same, were the steps captured?"""
    rows = {"one process, batch not cut": trained(place / "whole", 1, settings)} if uncut else {}
    for number in numbers:
        rows[f"{number} processes, 4 pieces"] = trained(place / str(number), number, {**settings, "training.pieces": 4})
    cut = [row for label, row in rows.items() if "pieces" in label]
    failed = [label for label, row in rows.items() if "failed" in row]
    same = not failed and all(row["sha256"] == cut[0]["sha256"] for row in cut)
    captured = not settings["training.cuda_graph"] or (not failed and all(row["form"]["captured"] for row in rows.values()))
    lines = []
    for label, row in rows.items():
        if "failed" in row:
            lines.append(f"{name}; {label}: FAILED, {row['failed']}")
            continue
        sha = row["sha256"]["model.safetensors"][:12], row["sha256"]["optimizer.safetensors"][:12]
        time = f"{row['ms']:.2f} ms a step, " if uncut else ""
        lines.append(f"{name}; {label}: {row['precision']}, law {row['law']}, {time}sha256 {' '.join(sha)}")
    lines.append(f"{name}: {'same bits' if same else 'OTHER BITS'}{'' if captured else ', NOT CAPTURED'}")
    print("\n".join(lines), flush=True)
    return {"setting": name, "same": same, "captured": captured, "runs": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--widths", type=int, nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--jobs", type=int, default=1, help="settings that are run at a time")
    parser.add_argument("--optimizers", nargs="+", default=["adamw", "muon"])
    given = parser.parse_args()
    on_gpu, cases = given.device == "cuda", []
    for width, optimizer, dropout in itertools.product(given.widths, given.optimizers, (0.0, 0.2)):
        settings = {
            **SIZES[width],
            "model.dropout": dropout,
            "training.optimizer": optimizer,
            "training.steps": given.steps,
            "training.device": given.device,
            "training.compile": False,
            "training.cuda_graph": on_gpu,
            "evaluation.every": given.steps,
        }
        cases.append((f"width {width}, {optimizer}, dropout {dropout}", settings))
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(given.jobs) as pool:
        folders = [Path(place) / str(number) for number in range(len(cases))]
        waiting = [
            pool.submit(compared, folder, name, settings, given.processes, given.jobs == 1)
            for folder, (name, settings) in zip(folders, cases)
        ]
        results = [one.result() for one in waiting]
    print(json.dumps(results))
    return 0 if all(one["same"] and one["captured"] for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
