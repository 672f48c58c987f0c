"""An ``nn.Module`` of a user's own, token ids -> scores, as a ``Network``; and its cost, measured.

``forward(ids)`` is all that is asked: ids [B, T] -> scores [B, T, V], or [B, outputs] where an objective judges whole rows.
One that also takes ``key_padding_mask`` ([B, T], True at padding) can be trained on padded rows. There is no cache, no tap and
no formula: generation reads the whole window again for every token, and parameters and FLOPs are counted on the built network.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from glassformer.foundation.errors import ConfigError
from glassformer.model.accounting import Cost, PartCost, by_definition, saved_bytes
from glassformer.model.dims import Dims
from glassformer.model.network import Network, NetworkConfig, evaluating

MASK = "key_padding_mask"


@final
class OwnNetwork(Network):
    """``module`` behind the interface of trainer, checks and evaluators: its scores are the features, and there is no head."""

    def __init__(self, config: NetworkConfig, module: nn.Module, vocabulary: int, outputs: int | None) -> None:
        super().__init__()
        self.config, self.module, self.head = config, module, nn.Identity()
        self._takes_padding = MASK in inspect.signature(module.forward).parameters
        table = self.embedding
        self.dims = dims = Dims(
            width=table.embedding_dim if table is not None else 1,
            heads=1,
            layers=0,  # what its layers are, if it has any, is not known
            context=config.context,
            vocabulary=vocabulary,
            causal=config.causal,
            outputs=outputs,
        )
        self.hides = ("right",) if self._takes_padding else ()
        self.pools = outputs is not None and self._scores_rows()
        if self.pools:
            self.dims = replace(dims, causal=False)  # a score of a whole row has no later tokens

    @torch.no_grad()
    def _scores_rows(self) -> bool:
        with evaluating(self.module):
            return self(torch.zeros(1, min(2, self.dims.context), dtype=torch.long)).ndim == 2

    def logits(self, features_BTD: Tensor, key_padding_mask_BS: Tensor | None) -> Tensor:
        return features_BTD

    @property
    def embedding(self) -> nn.Embedding | None:
        """The first table of vectors in it; None without one."""
        return next((part for part in self.module.modules() if isinstance(part, nn.Embedding)), None)

    def features(
        self, ids_BT: Tensor, *, key_padding_mask_BS: Tensor | None = None, dropout_seed: Tensor | None = None
    ) -> Tensor:
        """The scores. ``dropout_seed`` is not used: dropout of its own draws from torch's generator, which each step seeds."""
        if ids_BT.shape[1] > self.dims.context:
            raise ConfigError(
                f"{ids_BT.shape[1]} tokens do not fit in model.context={self.dims.context}; give fewer at once.",
                reason="beyond-context",
            )
        if key_padding_mask_BS is not None and not self._takes_padding:
            raise ConfigError(
                f"model.kind={self.config.kind} takes no {MASK}, so it cannot read rows with padding or hidden tokens; give "
                f"its forward an argument {MASK} ([B, T], True at padding), or choose an objective that pads nothing.",
                reason="takes-no-padding",
            )
        mask = {MASK: key_padding_mask_BS} if self._takes_padding else {}
        return self._checked(scores_in(self.module(ids_BT, **mask)), ids_BT)

    def _checked(self, scores: Any, ids_BT: Tensor) -> Tensor:
        rows, outputs = tuple(ids_BT.shape), self.dims.num_outputs
        of_tokens, of_rows = (*rows, outputs), (rows[0], outputs)
        fitting = (of_tokens,) if self.dims.outputs is None else (of_tokens, of_rows)
        if isinstance(scores, Tensor) and tuple(scores.shape) in fitting:
            return scores
        got = f"scores of shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
        raise ConfigError(
            f"model.kind={self.config.kind}: forward gives {got} for ids of shape {rows}; this recipe needs {of_tokens}"
            f"{f' or {of_rows}' if self.dims.outputs is not None else ''}: a score at every position for each of {outputs} "
            f"{'tokens' if self.dims.outputs is None else 'outputs (the argument outputs of build)'}.",
            reason="own-scores-shape",
        )


def scores_in(output: Any) -> Any:
    """The scores in what a module returns: a tensor, ``(scores, ...)``, or an object or dict with ``logits``."""
    output = output.get("logits", output) if isinstance(output, Mapping) else getattr(output, "logits", output)
    return output[0] if isinstance(output, tuple | list) and output else output


def measured_cost(config: NetworkConfig, vocabulary: int, *, outputs: int | None, batch: int) -> Cost:
    """The cost of a training step of ``batch`` rows: parameters of the built network; FLOPs of matrix products as torch counts
    them in a forward and a backward pass of one row, times ``batch``. By the direct children of the module."""
    network = config.network(vocabulary, outputs=outputs, seed=0)
    assert isinstance(network, OwnNetwork)
    ids_1T = torch.zeros(1, config.context, dtype=torch.long)
    with by_definition(network), FlopCounterMode(display=False) as counter:
        scores = network(ids_1T)
        forward = _by_module(counter)
        if scores.requires_grad:
            scores.float().logsumexp(-1).sum().backward()
        both = _by_module(counter)
    parts, counted = list[PartCost](), set[int]()
    for name, child in network.module.named_children():
        own = [parameter for parameter in child.parameters() if id(parameter) not in counted]
        counted.update(map(id, own))
        before, after = forward.get(name, 0), both.get(name, 0)
        parameters = sum(parameter.numel() for parameter in own)
        parts.append(PartCost(f"{name} ({type(child).__name__})", 1, parameters, batch * before, batch * (after - before)))
    rest = sum(parameter.numel() for parameter in network.parameters() if id(parameter) not in counted)
    first, whole = forward[""] - sum(forward.get(n, 0) for n, _ in network.module.named_children()), both[""] - forward[""]
    second = whole - sum(part.backward_flops for part in parts) // batch
    if rest or first or second:
        parts.append(PartCost(f"{type(network.module).__name__} itself", 1, rest, batch * first, batch * second))
    parameters = sum(part.parameters for part in parts)
    trained = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    activations = batch * saved_bytes(network.train(), ids_1T)
    return Cost(tuple(parts), batch, config.context, 4 * parameters, 4 * trained, activations)


def _by_module(counter: FlopCounterMode) -> dict[str, int]:
    """FLOPs so far, of each direct child by name and of all as ""."""
    inside = "OwnNetwork.module."
    found = {"": counter.get_total_flops()}
    for name, counts in counter.get_flop_counts().items():
        if name.startswith(inside) and "." not in (child := name.removeprefix(inside)):
            found[child] = sum(counts.values())
    return found
