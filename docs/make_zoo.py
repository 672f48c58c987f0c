"""zoo.json of ``python bench/zoo.py --out DIR`` -> docs/measurements/zoo.json and docs/zoo.md.

``python docs/make_zoo.py DIR/zoo.json``; without an argument the page is written again from the stored file. The table is
always that of one run of one state of the code.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
STORED = HERE / "measurements" / "zoo.json"
HEAD = """# The zoo: the checks on every causal class of transformers

Does a causal model class of transformers pass the checks? `python bench/zoo.py` made this table: it builds each class as a
tiny random model and checks it in a separate process. `glassformer check --zoo` does the same for your version of
transformers. "?" means "cannot tell", "-" that a law does not apply, "s" is CPU seconds.
The bugs in detail: [found.md](found.md). The laws: [checks.md](checks.md).

"""


def page(found: dict) -> str:
    return HEAD + runpy.run_path(str(HERE.parent / "bench" / "zoo.py"))["markdown"](found)


def main(files: list[str]) -> None:
    found = json.loads(Path(files[0]).read_text() if files else STORED.read_text())
    STORED.write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "zoo.md").write_text(page(found))


if __name__ == "__main__":
    main(sys.argv[1:])
