"""A user's own variants: Python files, run because the user named them on the command line or in Python.

Never run because a saved run or a recipe names them: a run records which plugins it used, and loading it asks for them.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.foundation.files import sha256_of_file, sha256_of_text

_loaded: dict[str, dict[str, str]] = {}


def load_plugins(files: Iterable[str | Path]) -> None:
    """Imports each file once; its decorators register the variants."""
    for file in files:
        _load(Path(file))


def loaded_plugins() -> list[dict[str, str]]:
    """What was loaded in this process, as ``{"file", "sha256"}``, for the record of a run."""
    return [dict(record) for record in _loaded.values()]


def fault_in_plugin(error: BaseException) -> str | None:
    """``my.py, line 12: AttributeError: ...`` when the error came out of a user's own file; None when it did not."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if str(Path(frame.filename).resolve()) in _loaded]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: {type(error).__name__}: {error}" if frames else None


def changed_plugins(recorded: Sequence[Any]) -> list[str]:
    """Of the plugins that a run wrote down: those that were loaded with another content than it was made with."""
    now = {Path(key).name: record["sha256"] for key, record in _loaded.items()}
    names = {Path(record["file"]).name: record["sha256"] for record in recorded}
    return [name for name, digest in names.items() if name in now and now[name] != digest]


def module_of(file: Path) -> str:
    """The name of a plugin's module: after its place, not its content, so that an edited file replaces its own variants."""
    return f"glassformer_plugin_{file.stem}_{sha256_of_text(str(file.resolve()))[:12]}"


def plugin_flags() -> str:
    """The ``--plugin`` words of this process, with a leading space: for commands that are shown to be copied."""
    return "".join(f" --plugin {shlex.quote(record['file'])}" for record in _loaded.values())


def _load(file: Path) -> None:
    if file.suffix != ".py" or not file.is_file():
        raise UsageError(f"--plugin {file}: not a Python file that exists.")
    key, digest = str(file.resolve()), sha256_of_file(file)
    if _loaded.get(key, {}).get("sha256") == digest:
        return
    name = module_of(file)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic resolves annotations through the module's name
    try:
        spec.loader.exec_module(module)
    except GlassformerError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        where = f", line {lines[-1]}" if lines else ""
        raise UsageError(f"--plugin {file}{where}: running it failed with {type(error).__name__}: {error}.") from error
    _loaded[key] = {"file": str(file), "sha256": digest}
