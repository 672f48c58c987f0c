"""What a check of the same architecture and build found before -> a report, so that the checks need not run again.

Only reports without a broken or undecided law are kept, in the cache folder under ``checks/``, and only of networks made of
our own parts, with fresh weights or with weights known by their sum (a pretrained encoder's, a checkpoint's): a plugin or a
class of a notebook may change anything, so with one the checks run. Trained weights are checked though fresh ones passed: a
part can hide a leak behind weights that begin at zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import torch

from glassformer.checks.report import CheckReport
from glassformer.data.cache import cache_folder, cached_folder
from glassformer.foundation.build import code_sha256
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.files import read_json, write_json
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
"""What must be the same, beside the code, for a check to give the same answer."""


def check_key(
    model: NetworkConfig,
    *,
    vocabulary: int,
    outputs: int | None,
    laws: frozenset[str],
    runtime: Runtime,
    paths: Mapping[str, Any] | None = None,
) -> str | None:
    """The name under which a check of such a network is remembered; None where it must run every time.

    ``paths``: of a check of the fast paths, what else they depend on (shapes, objective, settings of training).
    """
    if loaded_plugins() or unrecorded_parts(model) or (beside := model.checked_with()) is None:
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
    """The name under which a check of trained weights before an evaluation is remembered. ``weights``: their sha256."""
    dims, runtime = network.dims, Runtime(next(network.parameters()).device, "float32", torch.get_num_threads())
    sizes: dict[str, Any] = {"vocabulary": dims.vocabulary, "outputs": dims.num_outputs}
    return check_key(model, **sizes, laws=laws, runtime=runtime, paths={"trained": weights})


def generation_key(model: NetworkConfig, weights: str, *, vocabulary: int, runtime: Runtime) -> str | None:
    """The name under which a check of generation in the runtime's precision is remembered. ``weights``: their sha256."""
    paths = {"generation": weights}
    return check_key(model, vocabulary=vocabulary, outputs=None, laws=frozenset(), runtime=runtime, paths=paths)


def cached_check(key: str) -> CheckReport | None:
    """The report kept under ``key``, with a note of the day; None when there is none or it cannot be read."""
    try:
        document = read_json(cache_folder() / AREA / key / REPORT)
        report = CheckReport.from_dict(document["checks"])
        note = f"Remembered from a check of the same architecture, build and machine on {document['date']}."
        return replace(report, notes=(*report.notes, note)) if report.passed else None
    except (GlassformerError, OSError, ValueError, KeyError, TypeError):
        return None


def cache_check(key: str, report: CheckReport) -> None:
    """Keeps a report in which every law holds. A folder that cannot be written to is no reason to stop."""
    if not report.passed:
        return

    def make(folder: Path) -> None:
        write_json(folder / REPORT, {"date": date.today().isoformat(), "checks": report.to_dict()})

    with suppress(GlassformerError, OSError):
        cached_folder(AREA, key, make, whole=lambda _: cached_check(key) is not None)
