"""Runs the snippets of the course as a reader types them: `python docs/make_course.py FOLDER [LESSON]... [--look-only]`.

Works in FOLDER (an empty one), copies the pictures they draw to docs/course/pictures, and keeps what they printed in
docs/measurements/course.json, which the tests hold the lessons' figures to; with --look-only it prints and keeps nothing. Some
minutes on two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from make_notebooks import COURSE, LESSONS, SNIPPETS, blocks_of

PRINTED = COURSE.parent / "measurements" / "course.json"


def run(name: str, folder: Path) -> str:
    """What a snippet prints: commands with their standard error, Python without (there it is progress alone)."""
    words, errors = (["bash"], subprocess.STDOUT) if name.endswith(".sh") else ([sys.executable], None)
    environment = {
        **os.environ,
        "COLUMNS": "100",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(COURSE.parents[1] / "src"),  # this clone's code, whatever is installed
    }
    began = time.monotonic()
    done = subprocess.run(
        [*words, str(SNIPPETS / name)], cwd=folder, env=environment, stdout=-1, stderr=errors, text=True, check=False
    )
    print(f"== {name}: {time.monotonic() - began:.0f} s\n{done.stdout}", flush=True)
    if done.returncode:
        raise SystemExit(f"{name} ended with {done.returncode}.")
    caches = os.environ.get("GLASSFORMER_CACHE", "")
    return done.stdout.replace(str(folder.resolve()), "FOLDER").replace(caches or str(Path.home()), "CACHE")


def keep(lesson: str, printed: dict[str, str], folder: Path) -> None:
    """What a lesson printed joins the record; its picture goes beside the lessons."""
    record = json.loads(PRINTED.read_text(encoding="utf-8")) if PRINTED.exists() else {}
    PRINTED.write_text(
        json.dumps(dict(sorted((record | printed).items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    picture = f"{lesson.split('-', 1)[1]}.svg"
    (COURSE / "pictures").mkdir(exist_ok=True)
    shutil.copyfile(folder / "runs" / picture, COURSE / "pictures" / picture)


def main(folder: Path, *wanted: str, look_only: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for lesson in wanted or LESSONS:
        text = (COURSE / f"{lesson}.md").read_text(encoding="utf-8")
        printed = {name: run(name, folder) for name, _ in blocks_of(text)}
        if not look_only:
            keep(lesson, printed, folder)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--look-only"]
    main(Path(words[0]), *words[1:], look_only="--look-only" in sys.argv)
