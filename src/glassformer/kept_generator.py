"""A run's checkpoint -> the model that generates: on its device, in its precision, checked; kept while it is the same one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import torch

from glassformer.checking.fast_paths import require_generation_check
from glassformer.foundation.progress import Watcher
from glassformer.foundation.runtime import generation_precision
from glassformer.model.kernels import read_triton_ahead
from glassformer.model.network import Network, NetworkConfig
from glassformer.runs.checkpoint import Checkpoint, checkpoint_checksums
from glassformer.runs.directory import RunDirectory


class Kept(NamedTuple):
    step: int
    precision: str
    model: Network


@final
class KeptGenerator:
    """The model that generated last. Decoders and captured graphs hang on it, so the next text begins at once."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.kept: Kept | None = None

    def model(
        self,
        which: str | int,
        precision: str,
        read: Callable[[str | int], Checkpoint],
        build: Callable[[Checkpoint], Network],
        *,
        config: NetworkConfig,
        vocabulary: int,
        watch: Watcher,
    ) -> Network:
        """The model of checkpoint ``which``, ready to generate in ``precision``; in bf16 its scores are checked first.

        ``read`` and ``build`` are called only where the kept model is another one.
        """
        device, kind = generation_precision(precision, watch.say)
        newest, kept = self.directory.steps()[-1:], self.kept
        if which == "last" and kept is not None and newest == [kept.step] and kept.precision == kind:
            return kept.model
        found = read(which)
        if kept is None or (kept.step, kept.precision) != (found.step, kind):
            read_triton_ahead(device, kind)
            model = build(found).to(device)
            if kind == "bf16":
                weights = str(checkpoint_checksums(self.directory, found.step))
                require_generation_check(model, config, weights, vocabulary=vocabulary, watch=watch)
                model = model.to(torch.bfloat16)
            kept = self.kept = Kept(found.step, kind, model)
        return kept.model
