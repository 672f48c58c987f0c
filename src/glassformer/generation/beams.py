"""Prompts (ids) -> the most probable continuations with their probabilities, many prompts at once, by beam search.

One beam is greedy decoding. ``search_one`` is the reference implementation: one prompt, no KV cache. ``search`` keeps
all beams of many prompts in one batch with a KV cache; a test holds the two equal. A continuation ends with ``end_id``, and
its probability includes that end. Knows no tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.evaluation.results import Share, in_this_process
from glassformer.foundation.errors import BadArgument, ConfigError, DataError
from glassformer.model.kv_cache import ModelCache
from glassformer.model.network import evaluating

CACHE_BYTES = {"cpu": 1 << 30, "cuda": 8 << 30}
"""The most that keys and values of one batch may take."""


class Continuation(NamedTuple):
    """New ids without their end, the log probability of all of them and the end, and whether the end came."""

    ids: tuple[int, ...]
    log_probability: float
    ended: bool


@dataclass(frozen=True)
class BeamRule:
    """``banned``: ids that no continuation may hold; probabilities are not rescaled for them.

    ``length_penalty``: finished continuations are ranked by their log probability over their length (with the end) to this
    power; 0 ranks by probability, which prefers short ones.
    """

    end_id: int
    max_new_tokens: int
    beams: int = 1
    banned: Collection[int] = ()
    length_penalty: float = 0.0

    def rank(self, one: Continuation) -> float:
        """What finished continuations are ordered by, the best first: minus their penalised log probability."""
        return -one.log_probability / (len(one.ids) + 1) ** self.length_penalty

    def most(self, log_probability: float, room: int) -> float:
        """The best rank that a continuation of this probability can still reach in ``room`` tokens."""
        return -log_probability / (room + 1) ** self.length_penalty

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise BadArgument("beams", self.beams, "it must be 1 or greater")


@torch.no_grad()
def search_one(model: Any, prompt: Sequence[int], rule: BeamRule, *, room: int | None = None) -> list[Continuation]:
    """The reference implementation: each step reads the whole text of every beam. The best first, at most ``rule.beams``.

    ``room``: the most tokens of this one, if fewer than ``rule.max_new_tokens``.
    """
    device = next(model.parameters()).device
    live, done = [Continuation((), 0.0, False)], list[Continuation]()
    (room,) = _rooms(model, [prompt], rule, None if room is None else [room])
    for _ in range(room):
        found = []
        for beam in live:
            ids_1T = torch.tensor([[*prompt, *beam.ids]], device=device)
            scores_V = _log_probabilities(model.head(model.features(ids_1T)[:, -1:])[:, -1], rule)[0]
            best = scores_V.topk(min(2 * rule.beams, len(scores_V)))
            found += [(beam, token, beam.log_probability + step) for step, token in zip(*(x.tolist() for x in best))]
        found.sort(key=lambda one: -one[2])
        done += [Continuation(beam.ids, total, True) for beam, token, total in found[: rule.beams] if token == rule.end_id]
        going = [Continuation((*beam.ids, token), total, False) for beam, token, total in found if token != rule.end_id]
        live, done = going[: rule.beams], sorted(done, key=rule.rank)[: rule.beams]
        if len(done) == rule.beams and rule.rank(done[-1]) <= rule.most(live[0].log_probability, room):
            break
    return (done + live)[: rule.beams] if done else live


@torch.no_grad()
def search(
    model: Any,
    prompts: Sequence[Sequence[int]],
    rule: BeamRule,
    *,
    batch_size: int = 512,
    shared: Share = in_this_process,
) -> list[list[Continuation]]:
    """The same for many prompts, ``batch_size`` at a time (fewer where the KV cache would be too large). ``shared``: spreads
    batches over the processes of a run."""
    if not prompts:
        return []
    _rooms(model, prompts, rule)
    with evaluating(model):
        if not hasattr(model, "new_cache"):  # a network of a user's own
            return [search_one(model, prompt, rule) for prompt in prompts]
        rows = max(1, min(batch_size, rows_that_fit(model, max(map(len, prompts)) + rule.max_new_tokens) // rule.beams))
        batches = list(_batches(prompts, rows, padded=model.new_cache().rewinds))
        return in_order(batches, lambda places: search_batch(model, [prompts[at] for at in places], rule), shared)


def in_order(
    batches: Sequence[Sequence[int]],
    write: Callable[[Sequence[int]], list[list[Continuation]]],
    shared: Share,
    progress: Callable[[int], None] = lambda done: None,
) -> list[list[Continuation]]:
    """What ``write`` gives for every place of every batch, by place; batches are spread over the processes of a run."""
    found: list[list[Continuation]] = [[] for places in batches for _ in places]

    def as_lists(places: Sequence[int]) -> list[list[list[Any]]]:
        return [[list(one) for one in written] for written in write(places)]

    for places, results in zip(batches, shared(iter(batches), as_lists)):
        for at, written in zip(places, results):
            found[at] = [Continuation(tuple(ids), total, ended) for ids, total, ended in written]
        progress(len(places))
    return found


def _batches(prompts: Sequence[Sequence[int]], rows: int, *, padded: bool) -> Iterator[list[int]]:
    """The places of prompts of similar length, ``rows`` at most at a time. ``padded`` False: of the same length."""
    order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
    for _, group in groupby(order, key=lambda at: None if padded else len(prompts[at])):
        places = list(group)
        yield from (places[begin : begin + rows] for begin in range(0, len(places), rows))


@torch.no_grad()
def search_batch(
    model: Any, prompts: Sequence[Sequence[int]], rule: BeamRule, *, rooms: Sequence[int] | None = None
) -> list[list[Continuation]]:
    """The same for prompts that are read as one batch, by a model in evaluation mode. ``rooms``: as ``room`` of each."""
    device, beams = next(model.parameters()).device, rule.beams
    rows, rooms = len(prompts), _rooms(model, prompts, rule, rooms)
    room, rooms_B = max(rooms), torch.tensor(rooms, device=device)
    lengths_B = torch.tensor([len(prompt) for prompt in prompts], device=device)
    capacity = min(model.dims.context, max(map(len, prompts)) + room)
    cache = model.new_cache(rows=rows * beams, capacity=capacity)
    scores_BV = _read(model, prompts, cache, lengths_B)
    scores_NV = _log_probabilities(scores_BV, rule).repeat_interleave(beams, dim=0)
    first_N = torch.arange(rows, device=device).repeat_interleave(beams)
    cache.keep_rows(first_N)
    total_BK = torch.full((rows, beams), -torch.inf, device=device)
    total_BK[:, 0] = 0.0  # all beams are one text still: only the first counts
    tokens_BKT = torch.zeros(rows, beams, room, dtype=torch.long, device=device)
    done = [list[Continuation]() for _ in prompts]
    live = [list[Continuation]() for _ in prompts]
    open_B = torch.ones(rows, dtype=torch.bool, device=device)
    for step in range(room):
        many = min(2 * beams, scores_NV.shape[1])
        step_BKM, token_BKM = (x.view(rows, beams, many) for x in scores_NV.topk(many, dim=1))
        best = (total_BK[:, :, None] + step_BKM).flatten(1).topk(min(2 * beams, beams * many), dim=1)
        from_BC, total_BC = best.indices // many, best.values
        token_BC = token_BKM.flatten(1).gather(1, best.indices)
        ends_BC = token_BC == rule.end_id
        _keep_ended(done, tokens_BKT, from_BC, total_BC, ends_BC & open_B[:, None], step, rule)
        # The best that go on, in order: ended ones are sorted behind all others.
        chosen_BK = torch.argsort(ends_BC.int(), dim=1, stable=True)[:, :beams]
        parent_BK, total_BK = from_BC.gather(1, chosen_BK), total_BC.gather(1, chosen_BK)
        tokens_BKT = tokens_BKT.gather(1, parent_BK[:, :, None].expand_as(tokens_BKT))
        tokens_BKT[:, :, step] = token_BC.gather(1, chosen_BK)
        worst = [rule.rank(row[-1]) if len(row) == beams else torch.inf for row in done]
        best_B = -total_BK[:, 0] / (rooms_B + 1.0) ** rule.length_penalty
        open_B = (torch.tensor(worst, device=device) > best_B) & (rooms_B > step + 1)
        _keep_unfinished(live, tokens_BKT, total_BK, [row for row in range(rows) if rooms[row] == step + 1], step)
        if step + 1 == room or not open_B.any():
            break
        if beams > 1:
            cache.keep_rows((torch.arange(rows, device=device)[:, None] * beams + parent_BK).flatten())
        # A row whose room is used up goes on at its last place: what it reads there is used by nobody.
        at_N1 = (lengths_B.repeat_interleave(beams) + step).clamp(max=capacity - 1).unsqueeze(1)
        cache.place(at_N1, min(int(lengths_B.max()) + step + 1, capacity))
        features_N1D = model.features(tokens_BKT[:, :, step].reshape(-1, 1), position_ids_BT=at_N1, cache=cache)
        scores_NV = _log_probabilities(model.head(features_N1D)[:, -1], rule)
    _keep_unfinished(live, tokens_BKT, total_BK, [row for row in range(rows) if rooms[row] > step + 1], step)
    return [(ended + going)[:beams] if ended else going for ended, going in zip(done, live)]


def _keep_ended(
    done: list[list[Continuation]],
    tokens_BKT: Tensor,
    from_BC: Tensor,
    total_BC: Tensor,
    ends_BC: Tensor,
    step: int,
    rule: BeamRule,
) -> None:
    """Adds the candidates that ended among the ``beams`` best of their prompt."""
    rows_N, places_N = ends_BC[:, : rule.beams].nonzero(as_tuple=True)
    if not len(rows_N):
        return
    texts = tokens_BKT[rows_N, from_BC[rows_N, places_N], :step].tolist()
    for row, ids, total in zip(rows_N.tolist(), texts, total_BC[rows_N, places_N].tolist()):
        done[row].append(Continuation(tuple(ids), total, True))
        done[row].sort(key=rule.rank)
        del done[row][rule.beams :]


def _keep_unfinished(live: list[list[Continuation]], tokens_BKT: Tensor, total_BK: Tensor, rows: list[int], step: int) -> None:
    """Keeps the beams of these rows as they stand after ``step``."""
    if rows:
        texts, totals = tokens_BKT[rows, :, : step + 1].tolist(), total_BK[rows].tolist()
        for row, ids_of, totals_of in zip(rows, texts, totals):
            live[row] = [Continuation(tuple(ids), total, False) for ids, total in zip(ids_of, totals_of)]


def _read(model: Any, prompts: Sequence[Sequence[int]], cache: ModelCache, lengths_B: Tensor) -> Tensor:
    """Reads all prompts into the first rows of the cache; gives the scores after each prompt, [B, V]."""
    longest = int(lengths_B.max())
    ids_BT = torch.zeros(len(prompts), longest, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids_BT[row, : len(prompt)] = torch.tensor(prompt)
    cache.place_whole(slice(len(prompts)))
    features_BTD = model.features(ids_BT.to(lengths_B.device), cache=cache)
    last_B1D = features_BTD[torch.arange(len(prompts), device=lengths_B.device), lengths_B - 1].unsqueeze(1)
    return model.head(last_B1D)[:, -1]


def _log_probabilities(scores_NV: Tensor, rule: BeamRule) -> Tensor:
    scores_NV = torch.log_softmax(scores_NV.float(), dim=-1)
    if rule.banned:
        scores_NV[:, list(rule.banned)] = -torch.inf
    return scores_NV


def _rooms(model: Any, prompts: Sequence[Sequence[int]], rule: BeamRule, own: Sequence[int] | None = None) -> list[int]:
    """How many ids can follow each prompt; one that leaves no room is a sentence."""
    if not model.dims.causal:
        raise ConfigError("model.causal=false cannot answer: each token would see the ones after it.", reason="not-causal")
    context = model.dims.context
    for number, prompt in enumerate(prompts, start=1):
        if not 0 < len(prompt) <= context:
            raise DataError(
                f"Prompt {number} has {len(prompt)} tokens, but the model reads 1 to {context}; shorten it.",
                reason="prompt-length",
            )
    most = [rule.max_new_tokens] * len(prompts) if own is None else own
    return [max(1, min(room, rule.max_new_tokens, context - len(prompt) + 1)) for prompt, room in zip(prompts, most)]


def rows_that_fit(model: Any, length: int) -> int:
    """Rows of this length whose keys and values fit into memory."""
    room = CACHE_BYTES.get(model.embedding.weight.device.type, 1 << 30)
    return max(1, room // max(1, model.cache_bytes(rows=1, capacity=min(model.dims.context, length))))
