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
HEAD = """# The zoo: the checks on every causal class of transformers

Look up here whether a causal model class of transformers passes the checks. `glassformer check --zoo` makes this table: it
builds each class as a tiny random model and checks it in its own process. "?" means "cannot tell", "-" that a law does not
apply, "s" CPU seconds. What is broken: [found.md](found.md). The laws: [checks.md](checks.md).

"""


def page(found: dict) -> str:
    return HEAD + markdown(found)


def main(files: list[str]) -> None:
    found = json.loads(Path(files[0]).read_text() if files else KEPT.read_text())
    KEPT.write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "zoo.md").write_text(page(found))


if __name__ == "__main__":
    main(sys.argv[1:])
