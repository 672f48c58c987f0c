"""docs/measurements/zoo.json (from ``glassformer check --zoo``) -> docs/zoo.md: ``python docs/make_zoo.py [zoo.json ...]``.

With arguments, entries of these files (JSON as the command writes it, or a line per class) replace those that are kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from glassformer.checks.zoo.table import markdown, summary

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
    found = json.loads(KEPT.read_text()) if KEPT.exists() else {"classes": []}
    entries = {entry["class"]: entry for entry in found["classes"]}
    for file in files:
        text = Path(file).read_text()
        new = json.loads(text)["classes"] if text.startswith("{\n") else [json.loads(line) for line in text.splitlines()]
        entries.update({entry["class"]: entry for entry in new})
    import torch
    import transformers

    classes = [entries[name] for name in sorted(entries)]
    found = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "summary": summary(classes)}
    found["classes"] = classes
    KEPT.write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "zoo.md").write_text(page(found))


if __name__ == "__main__":
    main(sys.argv[1:])
