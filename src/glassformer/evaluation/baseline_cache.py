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

from glassformer.data.disk_cache import cache_folder, cached_folder
from glassformer.evaluation.results import Baseline
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.files import code_sha256, sha256_of_bytes
from glassformer.foundation.plugins import loaded_plugins, plugin_checksums
from glassformer.foundation.runtime import cpu_name
from glassformer.runs.baselines_file import packed

AREA, ARRAYS, CHECKSUM, SCHEMA = "baselines", "baselines.npz", "sha256", 1
LARGEST = 256 << 20
"""The largest entry that is cached, in bytes."""


def packed_baselines(fitted_on: str | None, fit: Callable[[], Mapping[str, Baseline]]) -> bytes:
    """The content of a run's baselines file, from the cache or fitted. ``fitted_on`` None: never cached."""
    if fitted_on is None:
        return packed(fit())
    key = _key(fitted_on)
    cached = _read_entry(cache_folder() / AREA / key)
    if cached is not None:
        return cached
    fitted: list[bytes] = []

    def make(folder: Path) -> None:
        fitted.append(packed(fit()))
        if len(fitted[0]) > LARGEST:
            raise GlassformerError(f"{len(fitted[0])} bytes of baselines are too many to cache.")
        (folder / ARRAYS).write_bytes(fitted[0])
        (folder / CHECKSUM).write_text(sha256_of_bytes(fitted[0]))

    with suppress(GlassformerError, OSError):  # a cache that cannot be read or written to costs time, not the run
        cached = _read_entry(cached_folder(AREA, key, make, whole=lambda folder: _read_entry(folder) is not None))
    return fitted[0] if fitted else cached if cached is not None else packed(fit())


def _read_entry(folder: Path) -> bytes | None:
    """The entry in ``folder``; None if there is none or its checksum is wrong."""
    try:
        content = (folder / ARRAYS).read_bytes()
        return content if (folder / CHECKSUM).read_text() == sha256_of_bytes(content) else None
    except (OSError, ValueError):
        return None


def _key(fitted_on: str) -> str:
    libraries = [platform.python_version(), np.__version__, version("scipy"), version("scikit-learn")]
    machine = [*libraries, platform.platform(), cpu_name()]
    return fingerprint([SCHEMA, fitted_on, code_sha256(), plugin_checksums(loaded_plugins()), machine])[:40]
