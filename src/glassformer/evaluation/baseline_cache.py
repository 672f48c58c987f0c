"""A cache of fitted baselines, so that runs on the same data fit them once.

In the cache folder under ``baselines/``, keyed by a checksum of the data, our code, the plugins and the machine. Other
processes wait while one fits; a damaged entry is replaced; without a writable cache they are fitted. The untrained network,
which depends on the model, is not cached here.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import numpy as np

from glassformer.data.disk_cache import cached_folder
from glassformer.evaluation.results import Baseline
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.files import code_sha256
from glassformer.foundation.plugins import loaded_plugins, plugin_checksums
from glassformer.foundation.runtime import cpu_name
from glassformer.runs.baselines_file import load_packed, packed

AREA, ARRAYS, SCHEMA = "baselines", "baselines.npz", 1


def packed_baselines(fitted_on: str | None, fit: Callable[[], Mapping[str, Baseline]]) -> bytes:
    """The content of a run's baselines file, from the cache or fitted. ``fitted_on`` None: never cached."""
    if fitted_on is None:
        return packed(fit())
    contents: list[bytes] = []

    def make(folder: Path) -> None:
        contents.append(packed(fit()))
        (folder / ARRAYS).write_bytes(contents[-1])

    def is_whole(folder: Path) -> bool:
        """An archive has checksums of its own."""
        found = load_packed(folder / ARRAYS) is not None
        if found:
            contents.append((folder / ARRAYS).read_bytes())
        return found

    with suppress(GlassformerError, OSError):  # a cache that cannot be read or written to costs time, not the run
        cached_folder(AREA, _key(fitted_on), make, whole=is_whole)
    return contents[-1] if contents else packed(fit())


def _key(fitted_on: str) -> str:
    libraries = [platform.python_version(), np.__version__, version("scipy"), version("scikit-learn")]
    machine = [*libraries, platform.platform(), cpu_name()]
    return fingerprint([SCHEMA, fitted_on, code_sha256(), plugin_checksums(loaded_plugins()), machine])[:40]
