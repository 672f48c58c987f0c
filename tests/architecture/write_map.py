"""The source tree as plain facts; run as a program it writes the layers into ARCHITECTURE.md, and the map, docs/map.md."""

from __future__ import annotations

import ast
import configparser
import functools
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE, PAGE, MAP = ROOT / "src" / "glassformer", ROOT / "ARCHITECTURE.md", ROOT / "docs" / "map.md"


@dataclass(frozen=True)
class Module:
    """One file of the package, read and never run."""

    file: Path
    root: Path = SOURCE

    @property
    def path(self) -> str:
        return self.file.relative_to(self.root).as_posix()

    @property
    def top(self) -> str:
        """The package or module directly under ``glassformer`` that this file belongs to."""
        return self.path.partition("/")[0].removesuffix(".py")

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.file.read_text(encoding="utf-8"))

    @property
    def sentence(self) -> str:
        """The first line of the docstring."""
        lines = (ast.get_docstring(self.tree) or "").splitlines()
        return lines[0] if lines else ""

    @property
    def imports(self) -> set[str]:
        """The tops of ``glassformer`` that are imported anywhere in the file, functions included."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{'glassformer.' * bool(node.level)}{node.module}.{alias.name}" for alias in node.names]
            found |= {name.split(".")[1] for name in names if name.startswith("glassformer.")}
        return found


@functools.cache
def modules(root: Path = SOURCE) -> list[Module]:
    return [Module(file, root) for file in sorted(root.rglob("*.py"))]


def layers() -> list[list[str]]:
    """From the top down; names in one list do not know each other. Written down once, in .importlinter."""
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", encoding="utf-8")
    lines = config["importlinter:contract:layers"]["layers"].strip().splitlines()
    written = [[name.strip() for name in line.split("|")] for line in lines]
    # a name in brackets is a room to come: it counts once it is there
    named = [[name.strip("()") for name in line if not name.startswith("(") or _is_there(name.strip("()"))] for line in written]
    return [line for line in named if line]


def _is_there(name: str) -> bool:
    return (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()


def the_map() -> str:
    """The page docs/map.md: one row per module; a package is shown by its ``__init__``'s sentence."""
    rows = ["# Map", "", "Written by `make map` from the first lines of the modules.", "", "| path | what it is |", "|---|---|"]
    for module in modules():
        path = module.path.removesuffix("__init__.py") or "__init__.py"
        rows.append(f"| [`{path}`](../src/glassformer/{path}) | {module.sentence.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def written(page: str) -> str:
    """ARCHITECTURE.md with the layers as .importlinter has them."""
    order = "\n".join(" | ".join(line) for line in layers())
    return re.sub(r"(```\n)cli\b.*?foundation(\n```)", lambda m: f"{m[1]}{order}{m[2]}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    MAP.write_text(the_map(), encoding="utf-8")
