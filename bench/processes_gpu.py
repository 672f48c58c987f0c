"""One run on 1, 2 and 4 processes that share one GPU, in bf16 with captured steps: the same sha256 of weights and optimizer?

    python bench/processes_gpu.py                 # a few minutes on one GPU
    python bench/processes_gpu.py --device cpu    # the same script without a GPU: float32, nothing captured

Through the real command line: AdamW and Muon, with and without dropout, 4 pieces. Processes that share a GPU sum their
gradients through the host (gloo), so this says nothing about NCCL or about speed on several GPUs. Prints one line for each run
and a JSON document at the end; exit code 1 where bits differ, or where a step was not captured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from glassformer.runs.checkpoint import checkpoint_checksums
from glassformer.runs.directory import RunDirectory

SMALL = {"model.width": 32, "model.layers": 2, "model.heads": 2, "model.context": 32, "training.batch_size": 16}
LARGE = {"model.width": 384, "model.layers": 6, "model.heads": 6, "model.context": 256, "training.batch_size": 64}


def trained(out: Path, processes: int, settings: dict[str, Any]) -> dict[str, Any]:
    """One run, and what it left behind."""
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    command = [sys.executable, "-m", "glassformer", "train", "docstrings-char", "--out", str(out), "--quiet", *sets]
    command += ["--processes", str(processes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr.strip()}")
    run = RunDirectory(out)
    environment, seconds = run.read_environment(), run.timings()[-1]["seconds"]
    return {
        "sha256": checkpoint_checksums(run, run.steps()[-1]),
        "precision": environment["precision"],
        "form": environment["step_form"],
        "device": environment["device_name"],
        "law": environment["checks"]["judged"].get("processes"),
        "ms": 1000 * seconds["steps"] / (settings["training.steps"] - 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    given = parser.parse_args()
    on_gpu = given.device == "cuda"
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        for sizes in (SMALL, LARGE) if on_gpu else (SMALL,):
            for optimizer in ("adamw", "muon"):
                for dropout in (0.0, 0.2):
                    settings = {
                        **sizes,
                        "model.dropout": dropout,
                        "training.optimizer": optimizer,
                        "training.steps": given.steps,
                        "training.device": given.device,
                        "training.compile": False,
                        "training.cuda_graph": on_gpu,
                        "evaluation.every": given.steps,
                    }
                    name = f"width {sizes['model.width']}, {optimizer}, dropout {dropout}"
                    rows = {"one process, batch not cut": trained(Path(place) / f"{len(results)}-whole", 1, settings)}
                    for number in given.processes:
                        out = Path(place) / f"{len(results)}-{number}"
                        rows[f"{number} processes, 4 pieces"] = trained(out, number, {**settings, "training.pieces": 4})
                    cut = [row for label, row in rows.items() if "pieces" in label]
                    same = all(row["sha256"] == cut[0]["sha256"] for row in cut)
                    captured = all(row["form"]["captured"] for row in rows.values()) or not on_gpu
                    for label, row in rows.items():
                        sha = row["sha256"]["model.safetensors"][:12], row["sha256"]["optimizer.safetensors"][:12]
                        print(f"{name}; {label}: {row['precision']}, {row['ms']:.2f} ms a step, sha256 {' '.join(sha)}")
                    print(f"{name}: {'same bits' if same else 'OTHER BITS'}{'' if captured else ', NOT CAPTURED'}", flush=True)
                    results.append({"setting": name, "same": same, "captured": captured, "runs": rows})
    print(json.dumps(results))
    return 0 if all(one["same"] and one["captured"] for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
