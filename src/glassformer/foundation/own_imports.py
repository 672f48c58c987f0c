"""A Python file of the user's -> the files of theirs that it imports, each with its sha256. Runs nothing; imports no torch.

Found in the text, so an import inside a function counts too, and so does what an imported file imports. The standard
library, installed packages and our own modules are left out: other sums tell of them.
"""

from __future__ import annotations

import ast
import sys
from importlib.util import find_spec
from pathlib import Path

from glassformer.foundation.files import sha256_of_file

INSTALLED = ("site-packages", "dist-packages")


def own_imports(file: Path) -> dict[str, str]:
    """sha256 by file, the file itself left out. What is imported by a name made while running cannot be seen."""
    start = file.resolve()
    seen, waiting = {start}, [start]
    while waiting:
        for name in _imported(waiting.pop()):
            new = [path for path in _own_files(name) if path not in seen]
            seen.update(new)
            waiting += new
    return {str(path): sha256_of_file(path) for path in sorted(seen - {start})}


def _imported(file: Path) -> set[str]:
    """The first words of what it imports: ``a`` for ``import a.b`` and for ``from a.b import c``."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.split(".")[0] for name in names}


def _own_files(name: str) -> list[Path]:
    """The files of a module, or of a whole package, that is neither installed nor ours."""
    if name in sys.stdlib_module_names or name in ("glassformer", "__main__"):
        return []
    try:
        spec = sys.modules[name].__spec__ if name in sys.modules else find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None:
        return []
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = [path for folder in folders for path in folder.rglob("*.py")] if folders else [Path(spec.origin or "")]
    return [
        path.resolve() for path in files if path.suffix == ".py" and not set(INSTALLED) & set(path.parts) and path.is_file()
    ]
