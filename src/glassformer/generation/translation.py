"""Sources (ids) -> their translations (ids), by beam search or sampling, many at once; knows no tokenizer.

The encoder reads each source once; the decoder writes with a KV cache and the stored keys and values of the source.
``translate_one`` is the reference implementation: one source, no cache, nothing stored. A test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.evaluation.results import Share, in_this_process
from glassformer.generation.beams import BeamRule, Continuation, in_order, rows_that_fit, search_batch, search_one
from glassformer.generation.sampling import Sampling, choose
from glassformer.model.network import Network

AT_ONCE = {"cpu": 64, "cuda": 512}
"""Sources that are translated in one batch."""


@dataclass(frozen=True)
class TranslationRule:
    """How targets are written: their first id, the rule of the search, and the id that pads sources.

    ``sampling``: draws tokens instead of searching.
    """

    start_id: int
    source_pad: int
    search: BeamRule
    sampling: Sampling | None = None
    seed: int = 0

    def room(self, source: np.ndarray) -> int:
        """The most tokens of a translation: three times the source's and twenty; a model that never ends is stopped there."""
        return min(self.search.max_new_tokens, 3 * len(source) + 20)


@dataclass(frozen=True)
class Translation:
    """A source, its translation, the log probability of all of it, and what other beams found."""

    source: str
    text: str
    log_probability: float
    alternatives: list[str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "translation": self.text,
            "log_probability": self.log_probability,
            "alternatives": self.alternatives,
        }

    def __str__(self) -> str:
        return self.text


@torch.no_grad()
def translate_one(network: Network, source: np.ndarray, rule: TranslationRule) -> list[Continuation]:
    """The reference implementation, for beams: the best first."""
    device = next(network.parameters()).device
    given = network.given(network.encode(torch.from_numpy(source)[None].to(device)))
    return search_one(given, [rule.start_id], rule.search, room=rule.room(source))


@torch.no_grad()
def translate(
    network: Network,
    sources: Sequence[np.ndarray],
    rule: TranslationRule,
    *,
    at_once: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    shared: Share = in_this_process,
) -> list[list[Continuation]]:
    """The translations of each source, the best first. ``network``: in evaluation mode. ``progress``: called with the number
    of sources done. ``shared``: spreads batches over the processes of a run."""
    device = next(network.parameters()).device

    def written(places: Sequence[int]) -> list[list[Continuation]]:
        chosen = [sources[at] for at in places]
        memory = network.encode(*padded_sources(chosen, rule.source_pad, device))
        given, rooms = network.given(replace(memory, keep=True)), [rule.room(source) for source in chosen]
        if rule.sampling is None:
            return search_batch(given, [[rule.start_id]] * len(chosen), rule.search, rooms=rooms)
        seeds = [rule.seed + at for at in places]
        return [[one] for one in _sampled(given, rule, rule.sampling, rooms, seeds)]

    batches = list(_batches(network, sources, rule, at_once or AT_ONCE.get(device.type, 64)))
    return in_order(batches, written, shared, progress)


def padded_sources(sources: Sequence[np.ndarray], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The ids [B, S] and where they are padding."""
    ids_BS = np.full((len(sources), max(map(len, sources))), pad, np.int64)
    for row, source in enumerate(sources):
        ids_BS[row, : len(source)] = source
    lengths_B1 = np.array([[len(source)] for source in sources])
    return torch.from_numpy(ids_BS).to(device), torch.from_numpy(np.arange(ids_BS.shape[1]) >= lengths_B1).to(device)


def _batches(network: Network, sources: Sequence[np.ndarray], rule: TranslationRule, at_once: int) -> Iterator[list[int]]:
    """The places of sources of similar length, as many at a time as ``at_once`` and memory allow."""
    order = sorted(range(len(sources)), key=lambda at: len(sources[at]))
    # Of a source as many keys and values are stored as of a target.
    rows = max(1, min(at_once, rows_that_fit(network, 2 * rule.search.max_new_tokens) // rule.search.beams))
    yield from (order[begin : begin + rows] for begin in range(0, len(order), rows))


def _sampled(
    given: Network, rule: TranslationRule, sampling: Sampling, rooms: Sequence[int], seeds: Sequence[int]
) -> list[Continuation]:
    """One draw for each source, token by token with a cache; the same seed draws the same tokens in any batch."""
    device, rows, model = next(given.parameters()).device, len(rooms), given
    cache = model.new_cache(rows=rows, capacity=min(model.dims.context, max(rooms) + 1))  # type: ignore[operator]
    last_B, seeds_B = torch.full((rows,), rule.start_id, device=device), torch.tensor(seeds, device=device)
    ids, totals, ended = [list[int]() for _ in rooms], [0.0] * rows, [False] * rows
    for step in range(max(rooms)):
        at_B1 = torch.full((rows, 1), step, device=device)
        cache.place(at_B1, step + 1)
        features_B1D = model.features(last_B[:, None], position_ids_BT=at_B1, cache=cache)  # type: ignore[call-arg]
        scores_BV = model.head(features_B1D)[:, -1].float()
        scores_BV[:, list(rule.search.banned)] = -torch.inf
        choice = choose(scores_BV, sampling, seen_BV=None, seeds_B=seeds_B, index_B=torch.full_like(seeds_B, step))
        last_B = choice.ids_B
        chances_B = scores_BV.log_softmax(-1).gather(1, last_B[:, None])[:, 0].tolist()
        for row, (token, chance) in enumerate(zip(last_B.tolist(), chances_B)):
            if ended[row] or len(ids[row]) >= rooms[row]:
                continue
            totals[row] += chance
            if token == rule.search.end_id:
                ended[row] = True
            else:
                ids[row].append(token)
        if all(end or len(one) >= room for end, one, room in zip(ended, ids, rooms)):
            break
    return [Continuation(tuple(one), total, end) for one, total, end in zip(ids, totals, ended)]
