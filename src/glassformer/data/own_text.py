"""A user's text file -> a small default recipe for it, and a sentence about the choices.

Sizes depend on the size of the file, so that the run takes a minute or two on a laptop and learns something. A starting point:
the run's recipe.yaml can be edited.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.foundation.errors import DataError

ENDINGS = (".txt", ".text", ".md", ".rst", ".tex", ".log", ".gz")
"""File extensions of texts; any other file is read as a recipe."""


@dataclass(frozen=True)
class _Size:
    """Model sizes for texts of up to ``bytes``."""

    bytes: float
    width: int
    layers: int
    context: int
    steps: int


_SIZES = (
    _Size(20_000, width=48, layers=2, context=32, steps=400),
    _Size(300_000, width=64, layers=2, context=64, steps=800),
    _Size(float("inf"), width=128, layers=4, context=128, steps=1000),
)


def is_text(source: object) -> bool:
    """Whether this names a text file rather than a recipe."""
    return isinstance(source, str | Path) and Path(source).suffix.lower() in ENDINGS and Path(source).is_file()


def recipe_for(file: str | Path) -> dict[str, Any]:
    """The values of a recipe; ``about`` says what was chosen."""
    place = Path(file)
    try:
        length = place.stat().st_size * (4 if place.suffix == ".gz" else 1)  # gzipped text has about a quarter of its size
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}); check the path.", file=place) from error
    size = next(size for size in _SIZES if length <= size.bytes)
    about = (
        f"A character model of {place.name}: {size.layers} layers of width {size.width}, context {size.context}, "
        f"{size.steps} steps, chosen by the length of the text."
    )
    return {
        "about": about,
        "data": {"path": str(place)},
        "tokenizer": "char",
        "model": {"width": size.width, "layers": size.layers, "heads": 4, "context": size.context},
        "training": {
            "steps": size.steps,
            "batch_size": 16,
            "lr": 2e-3,
            "schedule": {"kind": "cosine", "warmup": 50, "final": 0.05},
        },
        "evaluation": {"every": size.steps // 4},
        "checkpoint": {"every": size.steps // 4},
    }
