"""The built-in corpora: the prose of the docstrings of Python's standard library, as one text of blocks; and its source files.

Read from the source files of the running interpreter without importing them; so it needs no download, and differs between
Python versions. Only paragraphs of prose are read (no examples, signatures or tables), each once, in a fixed order.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from glassformer.foundation.errors import DataError

_LEFT_OUT = {"idlelib", "lib2to3", "test", "tests", "site-packages", "__pycache__", "ensurepip", "turtledemo"}
LONGEST = 60_000  # characters
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""The fields of a statement that hold statements, in the order of their lines."""
_SENTENCE = re.compile(r"^[A-Z\"'(].*[a-z][.!?:)\"']$", re.DOTALL)
_CODE = re.compile(r">>>|^\s*(def|class|import|from|return)\s|[=+|_~-]{3,}|\s{3,}|[{}\\]|\w\(.*\).*\w\(|::", re.MULTILINE)


def source_files() -> list[Path]:
    """The files of the standard library's modules, in the order of their names."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
        if (library / f"{name}.py").is_file():
            found.append(library / f"{name}.py")
        elif (library / name).is_dir():
            inner = sorted((library / name).rglob("*.py"))
            found += [file for file in inner if not _LEFT_OUT & set(file.relative_to(library).parts)]
    return found


def docstrings_of(source: str) -> Iterator[str]:
    """The docstrings of a module and everything in it, in the order of the lines; none when it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ignore invalid escapes in old modules
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in sorted(_owners(tree), key=lambda node: getattr(node, "lineno", 0)):
        if text := ast.get_docstring(node):
            yield text


def _owners(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """What can have a docstring, outer before inner. Expressions, seven nodes of eight, hold none and are not visited."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        for block in _BLOCKS:
            waiting.extend(getattr(node, block, ()))


def prose_of(docstring: str) -> Iterator[str]:
    """The paragraphs that are sentences, each on one line."""
    for paragraph in re.split(r"\n\s*\n", docstring):
        if paragraph.startswith(" ") or _CODE.search(paragraph.strip()):  # indented: a list, an example, a table
            continue
        text = " ".join(paragraph.split())
        letters = sum(character.isalpha() or character == " " for character in text)
        if len(text) >= 40 and text.isprintable() and _SENTENCE.match(text) and letters >= 0.88 * len(text):
            yield text


def docstring_corpus() -> str:
    """All of it: one paragraph per block, each once."""
    seen: dict[str, None] = {}
    for file in source_files():
        for docstring in docstrings_of(file.read_text(encoding="utf-8", errors="replace")):
            seen.update(dict.fromkeys(prose_of(docstring)))
    if not seen:
        raise DataError(
            "this Python has no source files of its standard library; choose another set.",
            file=sysconfig.get_paths()["stdlib"],
            reason="no-standard-library",
        )
    return "\n\n".join(seen) + "\n"


def library_sources() -> str:
    """The source files of the standard library as lines of JSON: name, package and text, in the order of ``source_files``.

    Without tables (``encodings``, ``pydoc_data``), and without files of more than ``LONGEST``: a few would outweigh all others.
    """
    library, rows = Path(sysconfig.get_paths()["stdlib"]), []
    for file in source_files():
        text = file.read_text(encoding="utf-8", errors="replace")
        name = file.relative_to(library)
        if text.strip() and len(text) <= LONGEST and name.parts[0] not in ("encodings", "pydoc_data"):
            row = {"file": name.as_posix(), "package": name.with_suffix("").parts[0], "text": text}
            rows.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(rows)
