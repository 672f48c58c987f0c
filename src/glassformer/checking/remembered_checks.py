"""A cache of passed checks, keyed by architecture, build and machine, so that the checks need not run again.

Only reports in which every law passed are cached, in the cache folder under ``checks/``, and only of networks made of our own
parts, with fresh weights or with weights identified by a checksum (a pretrained encoder's, a checkpoint's): with a plugin or a
class of a notebook the checks always run. Trained weights are checked even if fresh ones passed: zero-initialised weights can
hide a leak.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import torch

from glassformer.checks.check_report import CheckReport
from glassformer.data.disk_cache import cache_folder, cached_folder
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.files import code_sha256, read_json, write_json
from glassformer.foundation.plugins import loaded_plugins
from glassformer.foundation.registry import unrecorded_parts
from glassformer.foundation.runtime import Runtime, environment
from glassformer.model.network import Network, NetworkConfig

AREA, REPORT, SCHEMA = "checks", "report.json", 1
MACHINE = (
    "glassformer",
    "python",
    "torch",
    "platform",
    "cpu",
    "cores",
    "deterministic",
    "device",
    "device_name",
    "precision",
    "threads",
)
"""What must be equal, besides the code, for a cached check to be valid."""


def check_key(
    model: NetworkConfig,
    *,
    vocabulary: int,
    outputs: int | None,
    laws: frozenset[str],
    runtime: Runtime,
    paths: Mapping[str, Any] | None = None,
) -> str | None:
    """The cache key for a check of such a network; None if it must always run.

    ``paths``: for a check of the fast paths, what else they depend on (shapes, objective, training settings).
    """
    if loaded_plugins() or unrecorded_parts(model) or (beside := model.check_cache_inputs()) is None:
        return None
    machine = environment(runtime)
    return fingerprint(
        [
            SCHEMA,
            model.to_dict(),
            vocabulary,
            outputs,
            sorted(laws),
            code_sha256(),
            {name: machine[name] for name in MACHINE},
            *([beside] if beside else []),
            *([] if paths is None else [paths]),
        ]
    )[:40]


def trained_key(model: NetworkConfig, network: Network, weights: str, *, laws: frozenset[str]) -> str | None:
    """The cache key for a check of trained weights before an evaluation. ``weights``: their sha256."""
    dims, runtime = network.dims, Runtime(next(network.parameters()).device, "float32", torch.get_num_threads())
    sizes: dict[str, Any] = {"vocabulary": dims.vocabulary, "outputs": dims.num_outputs}
    return check_key(model, **sizes, laws=laws, runtime=runtime, paths={"trained": weights})


def generation_key(model: NetworkConfig, weights: str, *, vocabulary: int, runtime: Runtime) -> str | None:
    """The cache key for a check of generation in the runtime's precision. ``weights``: their sha256."""
    paths = {"generation": weights}
    return check_key(model, vocabulary=vocabulary, outputs=None, laws=frozenset(), runtime=runtime, paths=paths)


def cached_check(key: str) -> CheckReport | None:
    """The report cached under ``key``, with a note of its date; None on a cache miss."""
    try:
        document = read_json(cache_folder() / AREA / key / REPORT)
        report = CheckReport.from_dict(document["checks"])
        note = f"Remembered from a check of the same architecture, build and machine on {document['date']}."
        return replace(report, notes=(*report.notes, note)) if report.passed else None
    except (GlassformerError, OSError, ValueError, KeyError, TypeError):
        return None


def cache_check(key: str, report: CheckReport) -> None:
    """Caches a report in which every law holds; ignores a cache folder that is not writable."""
    if not report.passed:
        return

    def make(folder: Path) -> None:
        write_json(folder / REPORT, {"date": date.today().isoformat(), "checks": report.to_dict()})

    with suppress(GlassformerError, OSError):
        cached_folder(AREA, key, make, whole=lambda _: cached_check(key) is not None)
