"""A portion of a lent GPU: jobs one after another, each with its minutes, and everything they gave in one archive.

    python bench/gpu_portion.py --out FOLDER positions=5 memory=3.5
    python bench/gpu_portion.py --out FOLDER tests=6.5 nanochat=1 trainer=1.5 --nanochat DIR --encoder DIR
    python bench/gpu_portion.py --out FOLDER atlas=9.4 --processes 16 --keep /dev/shm/atlas
    python bench/gpu_portion.py --out FOLDER --miniature positions=4 memory=4 atlas=4   # the same logic on a CPU, tiny runs

``positions``: the study positions-sizes-wikitext-2, packed (``--add FILE``: begins with a packed one). ``memory``: every
recipe. ``tests``: make test-gpu. ``nanochat``, ``trainer``: beside them. ``atlas``: what is open; a second call on the same
machine with the same ``--keep`` goes on from the first, whose portion and compiled kernels lie there. A job that is not done
in its minutes is ended, and the next begins; what it had written counts. FOLDER/portion.tar.gz is written anew after every job
and every half minute, so a machine that goes away loses little. What became of each job is printed at the end and stands in
the archive.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PYTHON = shlex.quote(sys.executable)
OURS = f"{PYTHON} -m glassformer"
STUDY = "positions-sizes-wikitext-2"
GRACE = 20.0
"""Seconds that a job has to end after Ctrl-C; a study ends its workers in them."""
SPARE = 25.0
"""Seconds of a job's minutes that its own clock leaves for what follows the last run."""
SAVE_EVERY = 30.0


@dataclass(frozen=True)
class Job:
    """``command`` runs in the archive's folder, with {minutes}, {root} and the options in it; ``then`` every half minute and
    after it, whatever came of it; its exit code at the end counts, too. ``tiny``: what ``--miniature`` adds to the command."""

    command: str
    then: str = ""
    tiny: str = ""


TINY_STUDY = ("training.steps=4", "training.schedule.warmup=1", "training.batch_size=2", "model.context=32")
JOBS = {
    "positions": Job(
        f"{{add}} {OURS} compare {STUDY} --out positions --jobs {{processes}} --minutes {{minutes}} --quiet",
        then=f"{OURS} study pack positions positions.json.gz",
        tiny=" ".join(f"--set {change}" for change in TINY_STUDY),
    ),
    "tests": Job("make -C {root} test-gpu GPU_PYTHON={python}", tiny="GPU_TESTS=model/test_losses.py"),
    "memory": Job(f"{PYTHON} {{root}}/bench/memory.py --jobs 12 --json memory.json", tiny="docstrings-char numbers-in-words"),
    "nanochat": Job(
        f"{PYTHON} {{root}}/bench/beside.py train --width 768 --layers 12 --heads 12 --context 1024 --vocabulary 50304 "
        "--no-bias --batch 32 --steps 20 --rounds 3 --nanochat {nanochat} --json",
        tiny="--width 32 --layers 2 --heads 2 --context 16 --vocabulary 64 --batch 2 --steps 2 --rounds 1",
    ),
    "trainer": Job(
        f"{PYTHON} {{root}}/bench/encoder.py --encoder {{encoder}} --json trainer.json", tiny="--epochs 1 --rounds 1"
    ),
    "atlas": Job(
        f"TMPDIR={{keep}} {OURS} atlas run --minutes {{minutes}} --jobs {{processes}} --out {{keep}}/atlas.jsonl",
        then="tail -n 40 {keep}/glassformer-atlas-*/logs/*.log > workers.log; cp {keep}/atlas.jsonl .",
        tiny="--steps 4 --row gelu --size T --text docstrings --rate 1 --seeds 2",
    ),
}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="+", metavar="JOB=MINUTES", help=", ".join(JOBS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=14, help="Runs side by side in studies and the atlas.")
    parser.add_argument("--add", type=Path, help="A packed study that `positions` continues.")
    parser.add_argument("--keep", type=Path, help="The atlas's folder on this machine; by default one in --out.")
    parser.add_argument("--nanochat", type=Path, help="nanochat's folder.")
    parser.add_argument("--encoder", type=Path, help="An encoder's folder.")
    parser.add_argument("--miniature", action="store_true", help="Runs of seconds: is the logic right?")
    asked = parser.parse_args(words)
    wanted = [(name, float(minutes or 0)) for name, _, minutes in (job.partition("=") for job in asked.jobs)]
    for name, minutes in wanted:  # before anything costs time
        if minutes <= 0:
            parser.error(f"give {name} minutes: {name}=5")
        if name not in JOBS:
            parser.error(f"{name} is no job; there are: {', '.join(JOBS)}")
        for needed in ("nanochat", "encoder"):
            if f"{{{needed}}}" in JOBS[name].command and getattr(asked, needed) is None:
                parser.error(f"{name} needs --{needed} DIR")
    for given in ("add", "nanochat", "encoder"):
        if (place := getattr(asked, given)) is not None and not place.exists():
            parser.error(f"--{given} {place} does not exist")
    folder = asked.out.resolve() / "portion"
    folder.mkdir(parents=True)
    add = "" if asked.add is None else f"{OURS} study add positions {shlex.quote(str(asked.add.resolve()))};"
    keep = (asked.keep or asked.out / "keep").resolve()
    keep.mkdir(parents=True, exist_ok=True)
    print(f"MPS: {shutil.which('nvidia-cuda-mps-control') or 'not on this machine'}", flush=True)
    options = {
        "keep": shlex.quote(str(keep)),
        "processes": 2 if asked.miniature else asked.processes,
        "root": ROOT,
        "python": PYTHON,
        "add": add,
    }
    options |= {name: getattr(asked, name) and getattr(asked, name).resolve() for name in ("nanochat", "encoder")}
    done: list[dict[str, Any]] = []
    for name, minutes in wanted:
        job = JOBS[name]
        command = job.command.format(minutes=max(0.1, minutes - SPARE / 60), **options)
        command += f" {job.tiny}" if asked.miniature else ""
        done.append({"job": name, **run(command, job.then.format(**options), name, minutes, folder)})
        (folder / "jobs.json").write_text(json.dumps(done, indent=1) + "\n")
        archive(folder)  # with the list
        print("{job}: exit code {code}, of what follows it {then}, {seconds:.0f} s".format(**done[-1]), flush=True)
    for one in done:
        lines = (folder / f"{one['job']}.log").read_text(errors="replace").splitlines()
        print(f"\n--- {one['job']}, exit code {one['code']}", *lines[-25:], sep="\n", flush=True)
    return int(any(one["code"] != 0 or one["then"] != 0 for one in done))


def run(command: str, then: str, name: str, minutes: float, folder: Path) -> dict[str, Any]:
    """The exit code and seconds of a job; its words go to NAME.log. None: it was ended."""
    begun, code = time.monotonic(), None
    with (folder / f"{name}.log").open("wb") as log:
        child = subprocess.Popen(
            command, shell=True, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=surroundings()
        )
        while time.monotonic() < begun + 60 * minutes:
            try:
                code = child.wait(min(SAVE_EVERY, max(0.1, begun + 60 * minutes - time.monotonic())))
                break
            except subprocess.TimeoutExpired:
                gather(then, folder)
        else:
            end(child)
    packed = gather(then, folder)
    with (folder / f"{name}.log").open("ab") as log:
        log.write(packed.stderr)
    return {"code": code, "then": packed.returncode, "seconds": round(time.monotonic() - begun, 1), "command": command}


def gather(then: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """What ``then`` said and gave; what it wrote is in the archive."""
    done = subprocess.run(then, shell=True, cwd=folder, capture_output=True, timeout=60, env=surroundings(), check=False)
    archive(folder)
    return done


def surroundings() -> dict[str, str]:
    """The caller's, with the sources of this checkout; and words as they are said: what waits in a buffer is lost at a kill."""
    path = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}


def end(child: subprocess.Popen[bytes]) -> None:
    """Ctrl-C to the whole session of the job, then the end of what is left."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)


def archive(folder: Path) -> None:
    """The files of all jobs (a study's folder is packed in one of them), in one file that is whole at any time."""
    draft, whole = folder.parent / "draft.tar.gz", folder.parent / "portion.tar.gz"
    with tarfile.open(draft, "w:gz") as packed:
        for file in filter(Path.is_file, sorted(folder.iterdir())):
            packed.add(file, file.name)
    draft.replace(whole)


if __name__ == "__main__":
    sys.exit(main())
