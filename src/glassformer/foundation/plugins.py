"""A user's own variants: Python files, run because the user named them on the command line or in Python.

Never run because a saved run or a recipe names them: a run records which plugins it used, and loading it asks for them.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import shlex
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.foundation.files import sha256_of_file, sha256_of_text

INSTALLED = ("site-packages", "dist-packages")
GUARDED = ("torch", "torch._tensor", "torch.functional", "torch.utils.flop_counter", "numpy", "builtins", "math", "random")
GUARDED_WHOLE = ("glassformer.", "torch.nn.", "torch.optim.", "torch.autograd.")
"""Modules, and packages, whose functions and classes figures are made of."""
_loaded: dict[str, dict[str, Any]] = {}


def load_plugins(files: Iterable[str | Path], *, again: bool = False) -> None:
    """Imports each file once; its decorators register the variants. ``again``: also one that is loaded, so that nothing which
    its code has remembered is left."""
    for file in files:
        _load(Path(file), again=again)


def loaded_plugins() -> list[dict[str, Any]]:
    """What was loaded in this process, for the record of a run: ``file``, ``sha256``, and where it imports files of the
    user's own ``imports``, their sha256 by file."""
    return [dict(record) for record in _loaded.values()]


def plugin_checksums(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The sha256 of plugins and of what they import, in order: equal for equal code, wherever it lies."""
    return sorted(digest for record in records for digest in (record["sha256"], *record.get("imports", {}).values()))


def is_recorded(module: str) -> bool:
    """Whether the record of a run has a checksum of the code of a user's module: a plugin, or what a plugin imports."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and str(Path(file).resolve()) in _recorded_files()


def _recorded_files() -> set[str]:
    """Of each plugin, and of what it imports."""
    return {file for key, record in _loaded.items() for file in (key, *record.get("imports", {}))}


def is_ours(owner: type) -> bool:
    """Whether a class is one of this package: by what its module holds, not by what the class says of itself."""
    module = sys.modules.get(owner.__module__) if owner.__module__.split(".")[0] == "glassformer" else None
    found: Any = module
    for name in owner.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is owner


def replaced_functions() -> list[str]:
    """``my.py, line 12, stands in the place of glassformer.x.Y.z`` for each function or class of ours, or of ``GUARDED``
    modules, that a plugin has replaced while it ran; also for its global hooks of torch, and for objects that can be called."""
    files = _recorded_files()
    found, endings = [], tuple(Path(file).name for file in files)
    for name, module in list(sys.modules.items()) if files else ():
        if not (name.startswith(GUARDED_WHOLE) or name in GUARDED) or module is None:
            continue
        for key, value in list(vars(module).items()):
            inside = vars(value).items() if isinstance(value, type) and value.__module__ == name else ()
            hooks = [
                one
                for own, one in (value.items() if isinstance(value, dict) and name.startswith("torch.") else ())
                if key != "flop_registry" or str(own).startswith("aten")  # formulas of a plugin's own operators are welcome
            ]
            for place, one in ((key, value), *((f"{key}.{part}", one) for part, one in inside), *((key, one) for one in hooks)):
                file, line = _source_of(one)
                if file.endswith(endings) and str(Path(file).resolve()) in files:  # 50,000 of them: no Path for each
                    where = f"{file}, line {line}," if line else file
                    found.append(f"{where} stands in the place of {name}.{place}")
    return found


def _source_of(thing: Any) -> tuple[str, int]:
    """File and line of the code that runs when something is called; of a class its file and line 0. Empty: not Python's."""
    if isinstance(thing, type):
        return str(getattr(sys.modules.get(thing.__module__), "__file__", "")), 0
    if isinstance(thing, property | cached_property | staticmethod | classmethod | partial | MethodType):
        thing = getattr(thing, "fget", None) or getattr(thing, "func", None) or getattr(thing, "__func__", None)
    if not isinstance(thing, FunctionType):
        thing = getattr(type(thing), "__call__", None)  # noqa: B004 (an object of a class of the user's)
    return (thing.__code__.co_filename, thing.__code__.co_firstlineno) if isinstance(thing, FunctionType) else ("", 0)


def fault_in_plugin(error: BaseException) -> str | None:
    """``my.py, line 12: AttributeError: ...`` when an error came out of a user's own file, or out of our code that used what a
    class of such a file is, lacks or gave; then the line is that of the class. None when it did not."""
    if not _loaded:
        return None
    files = _recorded_files()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if str(Path(frame.filename).resolve()) in files]
    if frames:
        return f"{frames[-1].filename}, line {frames[-1].lineno}: {_described(error)}"
    for owner, function in _owners(error):
        file = getattr(sys.modules.get(owner.__module__), "__file__", None)
        if file is not None and str(Path(file).resolve()) in files:
            with suppress(OSError, TypeError):
                return f"{file}, line {inspect.getsourcelines(owner)[1]}, class {owner.__name__}: {_described(error, function)}"
    return None


def _described(error: BaseException, function: str = "") -> str:
    missing = f"it does not define {function}" if isinstance(error, NotImplementedError) and not str(error) else str(error)
    return f"{type(error).__name__}: {missing}" if missing else type(error).__name__


def _owners(error: BaseException) -> Iterator[tuple[type, str]]:
    """Classes that an error may be about, the likeliest first, each with the function that was running."""
    if isinstance(error, AttributeError) and error.obj is not None:
        yield (error.obj if isinstance(error.obj, type) else type(error.obj)), ""
    running = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][::-1]  # the innermost first
    if isinstance(error, TypeError):  # "Mine.build() got an unexpected keyword argument"
        name = str(error).partition("(")[0].rpartition(".")[0].rpartition(".")[2]
        modules = [sys.modules.get(module_of(Path(key))) for key in _loaded]
        called_so = [found for module in modules if isinstance(found := getattr(module, name, None), type)]
        at_work = {type(value) for frame in running for value in frame.f_locals.values()}
        yield from ((found, "") for found in sorted(called_so, key=lambda found: found not in at_work))
    for frame in running:
        if (own := frame.f_locals.get("self")) is not None:
            yield type(own), frame.f_code.co_name
            parts = own.__dict__.get("_modules", {}) if hasattr(own, "__dict__") else {}
            yield from ((type(part), frame.f_code.co_name) for part in parts.values())  # what a torch module is made of


def changed_plugins(recorded: Sequence[Any]) -> list[str]:
    """Of the plugins that a run recorded: those that are loaded with another content."""
    now = _checksums_by_name(_loaded.values())
    names = _checksums_by_name(recorded)
    return [name for name, digest in names.items() if name in now and now[name] != digest]


def _checksums_by_name(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {
        Path(file).name: digest
        for record in records
        for file, digest in ((record["file"], record["sha256"]), *record.get("imports", {}).items())
    }


def module_of(file: Path) -> str:
    """The name of a plugin's module: after its place, not its content, so that an edited file replaces its own variants."""
    return f"glassformer_plugin_{file.stem}_{sha256_of_text(str(file.resolve()))[:12]}"


def plugin_flags() -> str:
    """The ``--plugin`` words of this process, with a leading space: for commands that are shown to be copied."""
    return "".join(f" --plugin {shlex.quote(record['file'])}" for record in _loaded.values())


def _load(file: Path, *, again: bool = False) -> None:
    if file.suffix != ".py" or not file.is_file():
        raise UsageError(f"--plugin {file}: not a Python file that exists.", reason="no-such-plugin")
    key, digest = str(file.resolve()), sha256_of_file(file)
    before = _loaded.get(key)
    if before is not None and before["sha256"] == digest and _unchanged(before.get("imports", {})) and not again:
        return
    _forget_modules(before.get("imports", {}) if before is not None else {})
    _find_siblings(file)
    name = module_of(file)
    try:
        run_file(file, name)
    except GlassformerError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        where, said = f", line {lines[-1]}" if lines else "", str(error).partition("\n")[0].rstrip(".")
        raise UsageError(
            f"--plugin {file}{where}: running it failed with {type(error).__name__}: {said}.", reason="plugin-failed"
        ) from error
    imports = own_imports(file)
    _loaded[key] = {"file": str(file), "sha256": digest, **({"imports": imports} if imports else {})}


def run_file(file: Path, name: str) -> ModuleType:
    """The module that a Python file makes; it stays in ``sys.modules``, also if it raises."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic resolves annotations through the module's name
    spec.loader.exec_module(module)
    return module


def _find_siblings(file: Path) -> None:
    """What lies beside a plugin, or in folders beside it, can be imported by it, as by a script."""
    folder = file.resolve().parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # at the end: it hides nothing that is installed
    importlib.invalidate_caches()
    for name in _imported(file):
        beside = [place for place in (folder / f"{name}.py", folder / name) if place.exists()]
        known = getattr(sys.modules.get(name), "__spec__", None)
        if beside and known is not None and name not in sys.stdlib_module_names:
            places = [Path(place).resolve() for place in (known.origin, *(known.submodule_search_locations or ())) if place]
            if not any(place.is_relative_to(folder) for place in places):
                raise UsageError(
                    f"--plugin {file} imports {name}, of which {beside[0]} lies beside it, but another one, {places[0]}, is "
                    "loaded already; rename one of the two.",
                    reason="two-siblings",
                )


def _unchanged(imports: Mapping[str, str]) -> bool:
    return all(Path(file).is_file() and sha256_of_file(Path(file)) == digest for file, digest in imports.items())


def _forget_modules(files: Collection[str]) -> None:
    """What an edited plugin imports is run again with it, so that the code is what its checksums say."""
    for name, module in list(sys.modules.items()) if files else ():
        file = getattr(module, "__file__", None)
        if file is not None and str(Path(file).resolve()) in files:
            del sys.modules[name]


def own_imports(file: Path) -> dict[str, str]:
    """The files of the user's own that ``file`` imports, directly or not: sha256 by file.

    Found in the text without running it, so an import inside a function counts, and one by a name made while running does not.
    The standard library, installed packages and our own modules have other checksums.
    """
    start = file.resolve()
    seen, waiting = {start}, [start]
    while waiting:
        for name in _imported(waiting.pop()):
            new = [path for path in _own_files(name) if path not in seen]
            seen.update(new)
            waiting += new
    return {str(path): sha256_of_file(path) for path in sorted(seen - {start})}


def _imported(file: Path) -> set[str]:
    """The top-level names of what it imports: ``a`` for ``import a.b`` and for ``from a.b import c``."""
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
