"""The built-in study plans: their files and descriptions. Imports no torch."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from glassformer.foundation.yaml_text import parse_yaml


def built_in_studies() -> dict[str, Path]:
    """The plans by name."""
    folder = Path(str(resources.files("glassformer"))) / "recipes" / "studies"
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def list_studies() -> list[dict[str, str]]:
    """Name, description and base recipe of each."""
    rows = []
    for name, file in built_in_studies().items():
        values = parse_yaml(file.read_text(encoding="utf-8"), str(file))
        rows.append({"name": name, "about": values["about"], "base": values["base"]})
    return rows
