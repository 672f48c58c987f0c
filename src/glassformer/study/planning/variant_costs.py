"""A variant before training -> what it costs, counted on the built network and on batches that are really drawn.

One eager step runs with torch's FLOP counter, its attention by the definition. The start, the order of the data and whether the
training text is the judged text are summarised, so that a change can be compared with the baseline (variant_facts.py).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from secrets import randbelow
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from glassformer.assembly import Parent, batches_of, number_of_steps, starting_network
from glassformer.data.batches import Batch
from glassformer.data.data_kinds import PreparedData
from glassformer.data.overlap import share_of_judged
from glassformer.foundation.plugins import is_ours
from glassformer.foundation.progress import SILENT
from glassformer.foundation.registry import VariantConfig
from glassformer.foundation.seeds import derive_seed
from glassformer.model.accounting import by_definition
from glassformer.model.config import ModelConfig, entries
from glassformer.model.initialisation import initial_weights
from glassformer.model.network import Network, evaluating
from glassformer.model.slots import PartConfig
from glassformer.recipe import Recipe
from glassformer.recipe_cost import Plan

MOST_FLOPS = 1e10
"""A step beyond this is counted on its first rows only, and scaled: so counting takes about a second on one core."""
DRAWN = 24
"""Steps whose batches are drawn and counted, spread over the whole run; as many that nobody can foresee are searched for judged
text."""
TOLERANCE = 0.01
"""Up to this relative difference what a config states agrees with what is counted."""
FILL = 0.05
READ = ("ids", "source_ids", "targets")
"""Tensors of a batch that hold text."""


def counted(recipe: Recipe, data: PreparedData, split: str, cost: Plan) -> dict[str, Any]:
    """Plain values for the answer of an inspection."""
    network, _ = starting_network(recipe, data, Parent.of(recipe, SILENT.say))
    start = _start(network)
    batches = batches_of(recipe, data)
    if not is_ours(type(network)):  # ours would encode every text first, which takes time and changes no count
        batches = network.training_batches(batches, recipe.seed)
    steps = number_of_steps(recipe, batches)
    drawn = [batches.batch(step) for step in _spread(steps)]
    tokens = sum(batch.numel for batch in drawn) / len(drawn)
    flops = _step_flops(recipe, network, drawn[0], cost) * tokens / drawn[0].numel
    parameters = sum(one.numel() * (2 if one.is_complex() else 1) for one in network.parameters())
    trained = sum(one.numel() for one in network.parameters() if one.requires_grad)
    beside = sum(one.nbytes for one in network.buffers())
    memory = 4 * (parameters + trained) + beside + cost.optimizer_bytes + cost.cost.activation_bytes
    return {
        "parameters": parameters,
        "step_flops": round(flops),
        "memory_bytes": memory,
        "steps": steps,
        "tokens": round(steps * tokens),
        "rows": sum(batch.rows for batch in drawn) / len(drawn),
        "epochs": steps / batches.steps_per_epoch if batches.steps_per_epoch else None,
        "misstated": misstated(recipe.model, network, cost),
        "start": start,
        "same_start": _same_start(recipe, data, network),
        "judged_flops": _judged_flops(network, recipe.model.context),
        "chances": _chances(network, recipe.model.context),
        "function": _function(network, recipe.model.context),
        "order": _order(drawn[:2]),
        "judged_share": _largest(
            judged_share(some, data, split) for some in (drawn, [batches.batch(randbelow(steps)) for _ in range(DRAWN)])
        ),
    }


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _spread(steps: int) -> list[int]:
    """The first steps, the last, and some between, not at equal distances."""
    between = {derive_seed(steps, "drawn", number) % steps for number in range(DRAWN)}
    return sorted({0, min(1, steps - 1), steps - 1, *between})[: DRAWN + 3]


# -- FLOPs ------------------------------------------------------------------------------------------------------------------


def _step_flops(recipe: Recipe, network: Network, batch: Batch, cost: Plan) -> float:
    """FLOPs of the forward and backward pass of one step on this batch, of the reference implementation."""
    stated = max(1, cost.cost.step_flops) * recipe.training.accumulate
    rows = max(1, min(batch.rows, math.floor(batch.rows * MOST_FLOPS / stated)))
    part = batch.split(rows)[0]
    device = next(network.parameters()).device
    with by_definition(network), FlopCounterMode(display=False) as counter:
        loss = recipe.objective.loss(network, part.to(device), dropout_seed=None, smoothing=recipe.training.label_smoothing)
        if loss.requires_grad:
            loss.sum().backward()
    network.zero_grad(set_to_none=True)
    return counter.get_total_flops() * batch.numel / part.numel


def _judged_flops(network: Network, context: int) -> float:
    """FLOPs of a forward pass over one row in evaluation mode, for each of its tokens; 0: not known."""
    if network.reads_source:
        return 0.0
    ids_1T = (torch.arange(context) % network.dims.vocabulary)[None].to(next(network.parameters()).device)
    with by_definition(network), evaluating(network), torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(ids_1T)
    return counter.get_total_flops() / context


class _Draws(TorchDispatchMode):
    """Counts the operations that draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def _chances(network: Network, context: int) -> int | None:
    """How often a pass over one row draws random numbers in training; None: not known."""
    if network.reads_source:
        return None
    ids_1T = (torch.arange(context) % network.dims.vocabulary)[None].to(next(network.parameters()).device)
    with by_definition(network), torch.random.fork_rng(devices=[]), torch.no_grad(), _Draws() as draws:
        network.train()(ids_1T)
    return draws.count


def misstated(model: Any, network: Network, cost: Plan) -> dict[str, str]:
    """By reason, a sentence where a plugin's part states other FLOPs than its network has. Stating none is no
    fault, and what our own parts state is tested."""
    own = [part for part in parts_in(model) if not is_ours(type(part))]
    if not own or not isinstance(model, ModelConfig):
        return {}
    names, found = " and ".join(f"{type(part).__name__} ({part.kind})" for part in own), {}
    if all(type(part).flops is not PartConfig.flops for part in own):
        ids_1T = torch.zeros(1, model.context, dtype=torch.long)
        with by_definition(network), FlopCounterMode(display=False) as counter:
            network(ids_1T).float().logsumexp(-1).sum().backward()
        network.zero_grad(set_to_none=True)
        flops, stated = counter.get_total_flops(), cost.cost.step_flops / cost.cost.batch
        if abs(flops - stated) > TOLERANCE * flops:
            found["stated-flops"] = (
                f"{names}: with flops() a step on one row of {model.context} tokens takes {stated:,.0f}, and torch counts "
                f"{flops:,}; correct flops(), or leave it out: they are counted."
            )
    return found


def parts_in(model: Any) -> list[PartConfig]:
    """The parts of a model, those of lists over layers and those inside parts included."""
    found: list[PartConfig] = []
    for _, value in model:
        for part in entries(value) if isinstance(value, tuple | VariantConfig) else ():
            if isinstance(part, PartConfig):
                found += [part, *parts_in(part)]
    return found


# -- the start --------------------------------------------------------------------------------------------------------------


def _start(network: Network) -> dict[str, list[float]]:
    """By part (slot and layer) and shape: the standard deviations of its weights, in order of size."""
    found: dict[str, list[float]] = {}
    for one in initial_weights(network):
        name = getattr(one.module.__dict__.get("_start"), "name", "")
        part = one.key.removesuffix(f".{name}") if name else one.key.partition("/")[0]
        for weight in one.module.parameters(recurse=False):
            if weight.ndim > 1:
                shape = "x".join(map(str, weight.shape))
                found.setdefault(f"{part} {shape}", []).append(float(weight.detach().float().std()))
    return {key: sorted(values) for key, values in found.items()}


def _same_start(recipe: Recipe, data: PreparedData, network: Network) -> str:
    """A trained matrix that a plugin starts alike with every seed, though its numbers are nearly all different, as drawn ones
    are; empty: none. Then all seeds share the luck of one draw."""
    theirs = isinstance(recipe.model, ModelConfig) and all(is_ours(type(part)) for part in parts_in(recipe.model))
    if theirs or recipe.init_from or network.pretrained_source() is not None:
        return ""
    other = dict(starting_network(recipe.model_copy(update={"seed": recipe.seed + 1}), data, None)[0].named_parameters())
    for name, one in network.named_parameters():
        numbers = torch.view_as_real(one) if one.is_complex() else one
        drawn = one.requires_grad and one.ndim > 1 and numbers.detach().unique().numel() > 0.9 * numbers.numel()
        if drawn and torch.equal(one, other[name]):
            return name
    return ""


def _function(network: Network, context: int) -> list[float]:
    """A few outputs of the network after all its weights were replaced by numbers that depend on their shapes alone: equal for
    two networks that compute the same, whatever their parts are called. The network cannot be used afterwards."""
    if network.reads_source:
        return []
    ids_1T = (torch.arange(context) % network.dims.vocabulary)[None]
    seen: dict[tuple[int, ...], int] = {}
    with torch.no_grad():
        for parameter in network.parameters():
            shape = tuple(parameter.shape)
            seen[shape] = seen.get(shape, 0) + 1
            generator = torch.Generator().manual_seed(derive_seed(seen[shape], "fill", *map(str, shape)))
            parameter.copy_(FILL * torch.randn(shape, generator=generator) + (1.0 if parameter.ndim == 1 else 0.0))
        scores = network.eval()(ids_1T).float().flatten()
    if not bool(scores.isfinite().all()):
        return []
    return [round(float(value), 5) for value in scores[:: max(1, len(scores) // 16)][:16]]


# -- the data ---------------------------------------------------------------------------------------------------------------


def _order(drawn: list[Batch]) -> str:
    """A checksum of the text of some batches."""
    digest = hashlib.sha256()
    for batch in drawn:
        for name in READ:
            if name in batch.tensors:
                digest.update(batch[name].cpu().numpy().astype(np.int64).tobytes())
    return digest.hexdigest()[:16]


def judged_share(drawn: list[Batch], data: PreparedData, split: str) -> float | None:
    """How much of what the objective draws is the text that variants are judged on, and not training text."""
    held = [batch[name] for batch in drawn for name in READ if name in batch.tensors and batch[name].ndim == 2]
    rows = [row for ids_BT in held if not ids_BT.is_floating_point() for row in ids_BT.cpu().numpy()]
    train = data.split("train") if "train" in data.names else None
    return share_of_judged(rows, data.split(split), train, data.tokenizer.encode) if rows else None
