"""The on-disk cache: a folder per key, complete or absent, safe with several processes.

The folder is GLASSFORMER_CACHE, or the user's cache folder. Everything in it can be deleted at any time and is recreated.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import DataError
from glassformer.foundation.files import read_json, room_on_disk, whole_folder, write_json
from glassformer.foundation.locks import locked


def cache_folder() -> Path:
    """The cache folder; not created here."""
    if chosen := os.environ.get("GLASSFORMER_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "glassformer"


def cached_folder(area: str, key: str, make: Callable[[Path], None], *, whole: Callable[[Path], bool] = Path.is_dir) -> Path:
    """The folder of ``key``; on a cache miss (or if not ``whole``), ``make`` fills a temporary folder, which is then renamed.

    Other processes wait for the first one; a temporary folder of a killed process is removed by the next.
    """
    folder = cache_folder() / area / key
    if whole(folder):
        return folder
    _make_writable(folder.parent)
    with room_on_disk(folder), locked(folder.parent / f".{key}.lock", wait=True):
        if whole(folder):  # created by another process in the meantime
            return folder
        for leftover in folder.parent.glob(f".{key}.*"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with whole_folder(folder) as draft:
                make(draft)
        except OSError:
            if not whole(folder):  # without locks another process may have been faster
                raise
    return folder


def cached_value(area: str, key: Any, make: Callable[[], Any]) -> Any:
    """A value that JSON can hold, calculated once for all processes; ``key``: everything it depends on."""

    def whole(folder: Path) -> bool:
        return (folder / "value.json").is_file()

    folder = cached_folder(area, fingerprint(key), lambda draft: write_json(draft / "value.json", make()), whole=whole)
    return read_json(folder / "value.json")


def _make_writable(folder: Path) -> None:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        rule = "cannot be written to; set GLASSFORMER_CACHE to a folder that can."
        raise DataError(rule, file=folder, reason="cache-not-writable")
