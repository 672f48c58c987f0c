"""The CUDA decoder of a model, kept for its next sequences: capturing a step costs as much as taking a hundred."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, final
from weakref import WeakKeyDictionary

import torch

from glassformer.generation.batch import modules_of, rounds_as_float32
from glassformer.generation.cuda.decoder import CUDADecoder
from glassformer.generation.sampling import Sampling
from glassformer.generation.sequence import TokenSequence
from glassformer.model.transformer import Transformer

KEPT_BYTES = 1 << 30
"""The largest KV cache that is kept, with the CUDA graphs that use it."""
_KEPT: WeakKeyDictionary[Transformer, tuple[Any, CUDADecoder]] = WeakKeyDictionary()


@final
class KeptDecoder:
    """Runs sequences by the model's last decoder where it still fits, else by a new one."""

    def __init__(self, model: Transformer, sampling: Sampling, *, rows: int, capacity: int) -> None:
        self.model, self.sampling, self.rows, self.capacity = model, sampling, rows, capacity

    def run(self, sequences: Iterable[TokenSequence]) -> None:
        made_for = self._captured_with()
        kept_for, decoder = _KEPT.pop(self.model, (None, None))  # while it runs nobody else can have it
        if decoder is not None and kept_for == made_for:
            decoder.reset()
        else:
            decoder = CUDADecoder(self.model, self.sampling, rows=self.rows, capacity=self.capacity)
        decoder.run(sequences)
        small = self.model.cache_bytes(rows=self.rows, capacity=self.capacity) <= KEPT_BYTES
        # Under autocast a CUDA graph reads copies of the weights that are freed when the context ends.
        if small and not torch.is_autocast_enabled(self.model.embedding.weight.device.type):
            _KEPT[self.model] = made_for, decoder

    def _captured_with(self) -> tuple[Any, ...]:
        """All that a CUDA graph depends on: it reads every tensor of the model at its address."""
        model, modules = self.model, modules_of(self.model)
        held = itertools.chain.from_iterable((*one._parameters.values(), *one._buffers.values()) for one in modules)
        tensors = tuple(tensor.data_ptr() for tensor in held if tensor is not None)
        states = tuple((id(module), module.training) for module in modules)
        modes = (torch.is_autocast_enabled(model.embedding.weight.device.type), torch.is_inference_mode_enabled())
        return self.sampling, self.rows, self.capacity, rounds_as_float32(model), modes, tensors, states
