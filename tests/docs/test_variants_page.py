"""docs/variants.md is what the slots list, and lists the parts a reader expects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_page_is_what_the_generator_writes() -> None:
    """In a process of its own: other tests may have registered variants."""
    program = f"import sys; sys.path.insert(0, {str(DOCS)!r}); import make_variants; print(make_variants.page(), end='')"
    generated = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert (DOCS / "variants.md").read_text(encoding="utf-8") == generated, "run: python docs/make_variants.py"


def test_every_part_of_the_lab_is_there() -> None:
    text = (DOCS / "variants.md").read_text(encoding="utf-8")
    positions = ("none", "learned", "sinusoidal", "alibi", "rotary", "t5")
    mixers = ("dot", "synthesizer", "synthesizer_random", "synthesizer_factorised", "argmax", "average", "none")
    merges = ("concat", "shuffle", "shift", "reweight", "reweight_sequence", "reweight_position")
    for slot, names in {"positions": positions, "mixer": mixers, "merge": merges}.items():
        section = text.split(f"## `model.{slot}`")[1].split("\n## ")[0]
        assert [name for name in names if f"| `{name}` |" not in section] == []
