"""``Subject``, the common interface of everything that is checked: token ids -> logits, with padding and a cache if any.

For our Transformer, any module and any function; Hugging Face models are in checks/huggingface_subject.py. ``Probes`` draws the
inputs that a subject is tested with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from glassformer.checks.state_snapshot import Snapshot
from glassformer.foundation.errors import UsageError
from glassformer.model.tap import Tap

LONGEST_TRIED = 256
"""The longest context tried for a function that does not state one."""
SOURCE_LENGTH = 5
"""Tokens of the source that targets are tested with, and of the target that sources are tested with."""
LARGE_VOCABULARY = 2048
"""From this size on the head costs more than the rest, so the model without its head is checked separately, too."""
WORK_PER_PAIR = 2000
"""Multiplications per pair of positions, besides the parameters: attention scores and softmax of all heads and layers."""
SHORT = (2, 3, 5, 8, 13)
"""Lengths at which every cut is tested."""
TOKENS_AT_ONCE = 1 << 14
SCORES_AT_ONCE = 1 << 25
"""A table of 2^25 float64 scores is 256 MiB."""
QUICK_WORK = 1e11
"""Budget of multiplications for a quick check; a larger model is tested at fewer positions, but at least at some."""
ROWS_OF_A_CHECK = 250
"""Full rows in a check without a budget."""


Padded = Callable[[Tensor, Tensor], Tensor]
"""One pass over rows (ids_BT) in which some positions are masked for all queries (key_padding_mask_BS)."""


class Cached(Protocol):
    """Incremental decoding with a cache: ``read`` takes the next tokens of every row and returns their logits.

    ``lengths``: how many of the given tokens are real in each row (rows of unequal length, padded on the right).
    """

    def read(self, ids_BT: Tensor, lengths: list[int] | None = None) -> Tensor: ...


class Subject:
    """What is checked. ``modules``: searched for state; ``paddings`` and ``new_cache``: empty or None where unsupported."""

    def __init__(
        self, name: str, scores: Callable[[Tensor], Tensor], modules: Mapping[str, nn.Module], *, vocabulary: int, context: int
    ) -> None:
        self.name, self.scores, self.modules = name, scores, dict(modules)
        self.vocabulary, self.context = vocabulary, context
        self.reserved_ids: frozenset[int] = frozenset()
        """Special ids (padding), not used in test inputs."""
        self.paddings: dict[str, Padded] = {}
        """By side: "right", "left", or "anywhere" (any set of positions)."""
        self.moves: frozenset[str] = frozenset()
        """Sides on which padding shifts the position ids, since the model takes none."""
        self.new_cache: Callable[[], Cached] | None = None
        self.no_cache = "this model has no cache"
        """The reason where there is none."""
        self.remarks: list[str] = []
        """Notes that are no broken law."""
        self.ragged = False
        """Whether the cache supports rows of unequal length."""
        self.source: Subject | None = None
        """Of a network with two sequences: its source as the rows, for a fixed target."""
        self.inside: Subject | None = None
        """The same model without its expensive head, which is then tested at fewer positions."""
        self.measured = "scores"
        self.looked_up = 0
        """Parameters that are looked up, not multiplied (embeddings)."""
        self.tried: dict[torch.Size, bool] = {}
        """Cache: shapes of ids, and whether they run."""
        self.snapshot: Snapshot | None = None
        """A snapshot of all state that calls may change, if taken."""

    @property
    def row_work(self) -> float:
        """Approximate multiplications for one row of the full context."""
        return 2.0 * self.context * (self.parameters - self.looked_up) + WORK_PER_PAIR * self.context**2

    @property
    def device(self) -> torch.device:
        return device_of(self.modules.values())

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for module in self.modules.values() for parameter in module.parameters())

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Every module once, by its name in findings; the outermost has the subject's name."""
        for prefix, module in self.modules.items():
            for name, inner in module.named_modules(prefix=prefix):
                yield name or self.name, inner

    def taps(self) -> list[Tap]:
        return [module for _, module in self.named_modules() if isinstance(module, Tap)]


def device_of(modules: Iterable[nn.Module]) -> torch.device:
    tensors = (tensor for module in modules for tensor in chain(module.parameters(), module.buffers()))
    return next((tensor.device for tensor in tensors), torch.device("cpu"))


def is_network(target: Any) -> bool:
    """Whether this is a network as the slot ``model`` builds them: sizes, features, a head."""
    return isinstance(target, nn.Module) and hasattr(target, "dims") and hasattr(target, "features") and hasattr(target, "head")


def our_subject(model: Any) -> Subject:
    """Our networks: any position can be masked; causal ones have a KV cache, also for rows of unequal length.

    A network that reads a source is tested twice: its target's rows, all given one source, and its source's rows.
    """
    if getattr(model, "reads_source", False):
        given = _GivenSource(model)
        subject = _network_subject(given, model)
        subject.source = _source_subject(model)
        return subject
    return _network_subject(model, model)


def _network_subject(model: Any, module: nn.Module) -> Subject:
    """``module``: the network itself, whose parts are named in findings."""

    def outputs(ids_BT: Tensor, **more: Any) -> Tensor:  # one output per row is repeated at each of its positions
        scores: Tensor = model(ids_BT, **more)
        return scores if scores.ndim == 3 else scores.unsqueeze(1).expand(-1, ids_BT.shape[1], -1)

    def vectors(ids_BT: Tensor, **more: Any) -> Tensor:  # of the text only: prompt tuning puts vectors of its own before them
        found: Tensor = model.features(ids_BT, **more)
        return found[:, -ids_BT.shape[1] :]

    subject = _transformer(model, outputs, module)
    if model.dims.vocabulary >= LARGE_VOCABULARY:
        subject.inside = _transformer(model, vectors, module)
        subject.inside.measured = "vectors before the head"
        tables = set(model.head.parameters())  # a tied head has the embedding's own
        if isinstance(getattr(model, "embedding", None), nn.Module):
            tables.update(model.embedding.parameters())
        subject.inside.looked_up = sum(table.numel() for table in tables)
    return subject


class _GivenSource:
    """A network given one random source, read anew in every call (in the call's precision); its cache stores it."""

    def __init__(self, network: Any) -> None:
        self.network, self.dims, self.head, self.embedding = network, network.dims, network.head, network.embedding
        length, generator = min(SOURCE_LENGTH, network.dims.context), torch.Generator().manual_seed(0)
        self.source_1S = torch.randint(network.source_vocabulary, (1, length), generator=generator)

    def given(self, *, keep: bool = False) -> Any:
        memory = self.network.encode(self.source_1S.to(device_of([self.network])))
        return self.network.given(replace(memory, keep=keep))

    def features(self, ids_BT: Tensor, **more: Any) -> Tensor:
        cache = more.get("cache")
        given = getattr(cache, "given_source", None) or self.given(keep=cache is not None)
        if cache is not None:
            cache.given_source = given  # the keys and values of the source are made in the first piece
        return given.features(ids_BT, **more)

    def __call__(self, ids_BT: Tensor, **more: Any) -> Tensor:
        return self.head(self.features(ids_BT, **more))

    def new_cache(self) -> Any:
        return self.network.new_cache()


def _source_subject(network: Any) -> Subject:
    """The source's rows: the vectors of a fixed target, given each of them, repeated at every position of the source."""
    length, generator = min(SOURCE_LENGTH, network.dims.context), torch.Generator().manual_seed(1)
    target_1T = torch.randint(network.dims.vocabulary, (1, length), generator=generator)

    def read(ids_BT: Tensor, key_padding_mask_BS: Tensor | None = None) -> Tensor:
        ids_BS = ids_BT
        target_BT = target_1T.to(ids_BS.device).expand(len(ids_BS), -1)
        features_BTD = network.given(network.encode(ids_BS, key_padding_mask_BS)).features(target_BT)
        return features_BTD.flatten(1).unsqueeze(1).expand(-1, ids_BS.shape[1], -1)

    vocabulary, context = network.source_vocabulary, network.dims.context
    subject = Subject("the model", read, {"": network}, vocabulary=vocabulary, context=context)
    subject.measured = "vectors of the target"
    subject.paddings = {"right": read, "anywhere": read}
    return subject


def _transformer(model: Any, read: Callable[..., Tensor], module: nn.Module) -> Subject:
    """``read``: the whole model, or the part before the head."""
    subject = Subject(
        "the model", lambda ids_BT: read(ids_BT), {"": module}, vocabulary=model.dims.vocabulary, context=model.dims.context
    )

    def hiding(ids_BT: Tensor, key_padding_mask_BS: Tensor) -> Tensor:
        return read(ids_BT, key_padding_mask_BS=key_padding_mask_BS)

    subject.paddings = dict.fromkeys(getattr(model, "hides", ("right", "anywhere")), hiding)
    subject.reserved_ids = frozenset(getattr(model, "reserved_ids", ()))
    if model.dims.causal and hasattr(model, "new_cache"):
        subject.new_cache, subject.ragged = (lambda: _OurCache(model, read)), model.new_cache().rewinds
    return subject


class _OurCache:
    def __init__(self, model: Any, read: Callable[..., Tensor]) -> None:
        self.read_with, self.cache = read, model.new_cache()
        self.read_so_far: list[int] = []

    def read(self, ids_BT: Tensor, lengths: list[int] | None = None) -> Tensor:
        """The first chunk as whole rows, every further one at each row's own positions, as in generation."""
        rows, length = ids_BT.shape
        real = lengths or [length] * rows
        if not self.read_so_far:
            self.read_so_far = real
            self.cache.place_whole(torch.arange(rows, device=ids_BT.device))
            return self.read_with(ids_BT, cache=self.cache)
        start_B1 = torch.tensor(self.read_so_far, device=ids_BT.device).unsqueeze(1)
        position_ids_BT = start_B1 + torch.arange(length, device=ids_BT.device)
        self.read_so_far = [before + new for before, new in zip(self.read_so_far, real)]
        self.cache.place(position_ids_BT, max(self.read_so_far))
        return self.read_with(ids_BT, position_ids_BT=position_ids_BT, cache=self.cache)


def callable_subject(
    function: Callable[[Tensor], Any],
    *,
    vocabulary: int | None = None,
    context: int | None = None,
    snapshot: Snapshot | None = None,
) -> Subject:
    """A function or module: token ids [B, T] -> scores [B, T, V] (or an object or tuple that holds them)."""
    if isinstance(function, nn.Module):
        modules, name = {"": function}, type(function).__name__
    else:
        modules, name = _modules_of(function), getattr(function, "__name__", type(function).__name__)
    subject = Subject(name, lambda ids_BT: scores_in(function(ids_BT)), modules, vocabulary=0, context=0)
    subject.snapshot = snapshot
    subject.vocabulary = vocabulary or _stated(function, modules, ("vocabulary", "vocab_size")) or _vocabulary_tried(subject)
    stated = _stated(function, modules, ("context", "block_size", "max_position_embeddings"))
    subject.context = context or longest_that_runs(subject, stated or LONGEST_TRIED)
    if subject.vocabulary < 2 or subject.context < 2:
        raise UsageError(
            f"{name} cannot be checked with a vocabulary of {subject.vocabulary} and a context of {subject.context}: "
            "both must be at least 2; give them with vocabulary= and context=.",
            reason="too-small-to-check",
        )
    return subject


def scores_in(output: Any) -> Tensor:
    """The tensor of logits in a model's output."""
    for name in ("logits", "last_hidden_state"):
        if isinstance(output, Mapping):
            output = output.get(name, output)
        else:
            output = getattr(output, name, output)
    if isinstance(output, tuple | list) and output:
        output = output[0]
    if not isinstance(output, Tensor) or output.ndim < 2 or not output.is_floating_point():
        raise UsageError(
            f"The checked function returned {type(output).__name__}; it must map ids [B, T] to a float tensor [B, T, ...].",
            reason="no-scores",
        )
    if output.ndim == 2:
        raise UsageError(
            f"The checked function returned one number per token ({list(output.shape)}); a check needs scores [B, T, V] for "
            "token ids [B, T].",
            reason="one-number-per-token",
        )
    return output.flatten(2)


def _modules_of(function: Any) -> dict[str, nn.Module]:
    """The modules that a function uses, from its closure, its globals and its bound object."""
    found: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        found.update({f"arg{i}": value for i, value in enumerate(function.args)}, **function.keywords)
        function = function.func
    if hasattr(function, "__self__"):
        found["self"] = function.__self__
    code = getattr(function, "__code__", None) or getattr(getattr(function, "__func__", None), "__code__", None)
    if code is not None:
        cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
        found.update(zip(code.co_freevars, cells))
        found.update({name: function.__globals__[name] for name in code.co_names if name in function.__globals__})
    elif hasattr(function, "__dict__"):  # an object with __call__
        found.update(vars(function))
    modules: dict[str, nn.Module] = {}
    for name, value in found.items():
        if isinstance(value, nn.Module) and not any(value is known for known in modules.values()):
            modules[name] = value
    return modules


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # reading an empty cell raises
    except ValueError:
        return False
    return True


def _stated(function: Any, modules: Mapping[str, nn.Module], names: tuple[str, ...]) -> int | None:
    for holder in (function, *modules.values()):
        for owner in (holder, getattr(holder, "config", None)):
            for name in names:
                value = getattr(owner, name, None)
                if isinstance(value, int) and value > 0:
                    return value
    return None


def longest_that_runs(subject: Subject, limit: int, token: int = 0) -> int:
    """The longest row up to ``limit`` with logits at every position; 0 if none runs."""

    def takes(length: int) -> bool:
        scores = runs(subject, torch.full((1, length), token))
        return scores is not None and scores.shape[1] == length

    if limit >= 2 and takes(limit):
        return limit
    ladder = [1 << power for power in range(limit.bit_length(), 0, -1) if 1 << power < limit]
    good = next((length for length in ladder if takes(length)), 0)
    low, high = good, min(2 * good, limit) - 1
    while good and low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if takes(middle) else (low, middle - 1)
    return low if good else 0


def can_run(subject: Subject, ids_BT: Tensor) -> bool:
    """Whether ids of this shape run; cached."""
    if ids_BT.shape not in subject.tried:
        subject.tried[ids_BT.shape] = runs(subject, ids_BT) is not None
    return subject.tried[ids_BT.shape]


def runs(subject: Subject, ids_BT: Tensor) -> Tensor | None:
    """The logits in evaluation mode, or None if the function fails on these ids."""
    modes = [(module, module.training) for root in subject.modules.values() for module in root.modules()]
    try:
        for root in subject.modules.values():
            root.eval()
        with torch.no_grad():
            return subject.scores(ids_BT.to(subject.device))
    except UsageError:
        raise
    except Exception:  # third-party code may raise anything at an unsupported length or id
        return None
    finally:
        for module, training in modes:
            module.training = training
        if subject.snapshot is not None:
            subject.snapshot.restore()


def _vocabulary_tried(subject: Subject) -> int:
    """The vocabulary: the number of logits if all these ids run, else the largest number of ids that do."""
    scores = runs(subject, torch.zeros(1, 2, dtype=torch.long))
    if scores is None:
        raise UsageError(
            f"{subject.name} does not run on token ids of shape [1, 2]; it must map ids [B, T] to scores [B, T, V].",
            reason="does-not-run",
        )
    for size in (scores.shape[-1], 256, 64, 16, 8, 4, 2):
        if size >= 2 and runs(subject, torch.full((1, 2), size - 1)) is not None:
            return size
    return 1


class Probes:
    """Draws the inputs of one check, deterministic in the seed, as many as the budget allows."""

    def __init__(self, subject: Subject, *, seed: int = 0, quick: bool = True) -> None:
        self.subject, self.quick = subject, quick
        self.brief = quick and subject.inside is not None
        """Whether the model without its head was checked separately, so that full rows only test the head."""
        self.generator = torch.Generator().manual_seed(seed)
        usable = [token for token in range(subject.vocabulary) if token not in subject.reserved_ids]
        self.usable = torch.tensor(usable)
        self._place = torch.full((subject.vocabulary,), 0)
        self._place[self.usable] = torch.arange(len(usable))
        self.share = min(1.0, QUICK_WORK / (subject.row_work * ROWS_OF_A_CHECK)) if quick else 1.0
        """The fraction of positions that is tested."""

    @property
    def heavy(self) -> bool:
        """Whether full rows are so expensive that minor code paths are tested on short rows only."""
        return self.brief or self.share < 0.5

    def affordable(self, wanted: int, *, least: int = 1) -> int:
        """The fraction of ``wanted`` positions that the budget allows."""
        return max(least, round(wanted * self.share))

    def rows(self, rows: int, length: int) -> Tensor:
        """Random rows; the last of several repeats one token."""
        ids_BT = self.usable[torch.randint(len(self.usable), (rows, length), generator=self.generator)]
        if rows > 2:
            ids_BT[-1] = ids_BT[-1, 0]
        return ids_BT.to(self.subject.device)

    def others(self, ids_BT: Tensor) -> Tensor:
        """Rows that differ at every position."""
        step_BT = torch.randint(1, len(self.usable), ids_BT.shape, generator=self.generator)
        return self.usable[(self._place[ids_BT.cpu()] + step_BT) % len(self.usable)].to(ids_BT.device)

    def changed_from(self, ids_BT: Tensor, cut_B: Tensor) -> Tensor:
        """The rows with every token from each row's cut on replaced."""
        later_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) >= cut_B.to(ids_BT.device).unsqueeze(1)
        return torch.where(later_BT, self.others(ids_BT), ids_BT)

    def long_lengths(self) -> list[int]:
        """Half the context and one less than all of it."""
        context = self.subject.context
        return sorted({context // 2 + 1, context - 1} - {context} - set(SHORT) - {0, 1})

    def cuts(self, length: int, *, wanted: int = 20) -> list[int]:
        """Cut positions: all of a short row or in a thorough check; else both ends, powers of two, and random ones.

        Always includes the cut before the last token, since some faults show only there.
        """
        every = list(range(1, length))
        if length <= max(SHORT) or not self.quick:
            return every
        needed = [length - 1, 1, length // 2]
        wanted = self.affordable(wanted, least=min(wanted // 4 + 1, len(needed)))
        powers = [cut for power in range(2, length.bit_length()) for cut in (1 << power, length - (1 << power))]
        shuffled = [every[i] for i in torch.randperm(len(every), generator=self.generator).tolist()]
        chosen = dict.fromkeys(cut for cut in (*needed, *powers, *shuffled) if 1 <= cut < length)
        return sorted(list(chosen)[:wanted])  # the last cut is the first of them

    def rows_at_once(self, length: int) -> int:
        """As many rows as fit comfortably into memory."""
        return max(1, min(TOKENS_AT_ONCE // length, SCORES_AT_ONCE // (length * self.subject.vocabulary)))
