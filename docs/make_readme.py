"""Draws README's pictures from real output: `python docs/make_readme.py RUN STUDY LOOK_RUN`.

RUN: a run on a text of one's own (`glassformer train mine.txt`): what `evaluate` prints becomes a picture of a terminal.
STUDY: the folder of `glassformer demo`: its differences and verdicts. LOOK_RUN: the run of the course's last lesson, for one
attention map.
"""

from __future__ import annotations

import html
import subprocess
import sys
from pathlib import Path

import glassformer as gf
from glassformer.figures.intervals import IntervalRow, difference_intervals
from glassformer.figures.save import save_figure
from glassformer.study.study import Study

PICTURES = Path(__file__).parent / "pictures"
COLUMNS, CHARACTER, LINE, MARGIN = 118, 7.3, 17, 16  # characters; pixels of one at 12 px, of a line, around
WORDS = {"better": "#7ee787", "worse": "#ffa198", "same": "#79c0ff", "invalid": "#ffa657", "not decided": "#d2a8ff"}


def printed(*words: str, folder: Path) -> str:
    """What the real command prints on standard output."""
    done = subprocess.run([sys.executable, "-m", "glassformer", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def terminal(command: str, output: str, *, most: int = COLUMNS) -> str:
    """A command and its output -> a picture of a terminal: text stays text, wrapped as there; nothing is left out."""
    lines = [("$ " + command, "#f0f6fc")]
    for line in output.rstrip().splitlines():
        pieces = [line[at : at + most] for at in range(0, len(line), most)] or [""]
        lines.extend((piece, _colour(line)) for piece in pieces)
    width, height = MARGIN * 2 + CHARACTER * max(len(line) for line, _ in lines), MARGIN * 2 + LINE * len(lines)
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 0.8):.1f}" fill="{colour}" xml:space="preserve">'
        f"{html.escape(line)}</text>"
        for number, (line, colour) in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" '
        f'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="12">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#161b22"/>\n{rows}\n</svg>\n'
    )


def _colour(line: str) -> str:
    return next((colour for word, colour in WORDS.items() if line.startswith(f"[{word}]")), "#c9d1d9")


def verdict_picture(folder: Path) -> None:
    """Every change of a study: its difference, its seeds, its word."""
    study, rows = Study.load(folder), []
    for one in study.verdicts:
        dots = one.evidence.seed_differences if one.evidence else ()
        rows.append(IntervalRow(one.variant, one.verdict, one.difference.value, one.difference.low, one.difference.high, dots))
    picture = difference_intervals(rows, margin=study.plan.same_within, unit=study.metric.unit)
    save_figure(picture, PICTURES / "readme-verdicts.svg")


def main(run: Path, study: Path, look_run: Path) -> None:
    output = printed("evaluate", f"runs/{run.name}", folder=run.parents[1])
    (PICTURES / "readme-evaluate.svg").write_text(terminal(f"glassformer evaluate runs/{run.name}", output), encoding="utf-8")
    verdict_picture(study)
    look = gf.load(look_run).look("kxqzvbmkxqzvbmkxqzvbm")
    best = max(look.head_table(), key=lambda row: row["induction"])
    save_figure(look.figure(best["layer"], best["head"]), PICTURES / "readme-attention.svg")


if __name__ == "__main__":
    main(*(Path(word).absolute() for word in sys.argv[1:4]))
