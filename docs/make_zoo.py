"""zoo.json of ``glassformer check --zoo --out DIR`` -> docs/measurements/zoo.json and docs/zoo.md.

``python docs/make_zoo.py DIR/zoo.json``; without an argument the page is written again from the kept file. The table is
always that of one run of one state of the code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from glassformer.checks.zoo.table import markdown

HERE = Path(__file__).parent
KEPT = HERE / "measurements" / "zoo.json"
HEAD = """# The zoo: the laws on every causal class of transformers

`glassformer check --zoo` builds every class that the installed transformers maps to causal language modelling in tiny form
with random weights and runs the laws on it, each in a process of its own. "?" is "cannot tell", "-" a law that does not
apply, "s" seconds of one core. What is broken is explained in [found.md](found.md), the laws in [checks.md](checks.md).

"""


def page(found: dict) -> str:
    return HEAD + markdown(found)


def main(files: list[str]) -> None:
    found = json.loads(Path(files[0]).read_text() if files else KEPT.read_text())
    KEPT.write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "zoo.md").write_text(page(found))


if __name__ == "__main__":
    main(sys.argv[1:])
