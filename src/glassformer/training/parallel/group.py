"""The processes of one run: ``ALONE``, or a ``Group`` that torchrun or ``train --processes`` started.

Whatever decides (a folder, a stop, a figure) is decided once for all: rank 0 does it and the others get the answer
(``once``), or every process gives a number and the largest counts (``largest``). Words travel as JSON, never as pickle.
When one process fails, its reason and exit code are stored where all can read them; the others end with that code, silently.
A process that is frozen, or that keeps the others waiting far longer than it ever took, is ended, and all others with it.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Any, Protocol, TypeVar, final

import numpy as np
import torch
from torch import Tensor

from glassformer.foundation.errors import (
    ConfigError,
    Diverged,
    GlassformerError,
    Interrupted,
    OtherProcessFailed,
    exit_code_of,
)
from glassformer.foundation.process_rank import Place, place_of
from glassformer.training.parallel.tree import share_of

T = TypeVar("T")

TIMEOUT = "GLASSFORMER_PROCESS_TIMEOUT"
"""Environment variable: seconds that a process waits for the others before it gives up; 600 by default."""
PATIENCE = "GLASSFORMER_PROCESS_PATIENCE"
"""Environment variable: seconds, 30 by default, after which a process is ended that gives no sign of life (it is stopped, or
its machine is gone), or that keeps the others waiting in a step or an evaluation (see ``Group.paced``)."""
SLOWER = 10.0
"""How many times its longest step so far, too, a process may keep the others waiting in a step."""
LOOK_EVERY = 0.5  # seconds between looks for the failure of another process
GRACE = 5.0  # seconds in which a process may end by itself after another one failed
CAUSE, AWAITED, READING = "cause", "awaited", "reading"
LAUNCHED, LOST = "GLASSFORMER_LAUNCHED", 75
"""Set where our own launcher started the processes: it reports which one was killed, and one that lost contact ends silently,
with this code."""


def seconds_of(variable: str, otherwise: float) -> float:
    try:
        return float(os.environ[variable])
    except (KeyError, ValueError):
        return otherwise


class Processes(Protocol):
    """What a run asks of the processes that share it."""

    @property
    def place(self) -> Place: ...

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which prints, records and saves."""

    def once(self, work: Callable[[], T], *, pack: Callable[[T], Any] = ..., unpack: Callable[[Any], T] = ...) -> T:
        """Rank 0 does ``work``; every process gets the result, through JSON by ``pack`` and ``unpack``."""

    def largest(self, number: int) -> int:
        """The largest of the numbers that the processes give."""

    def shared(self, items: Iterator[Any], compute: Callable[[Any], T]) -> Iterator[T]:
        """``compute`` of every item in order, item k by process k modulo their number. Results: arrays, tuples of them, or
        lists that JSON can hold."""

    def paced(self, what: str) -> AbstractContextManager[None]:
        """Inside, this process does what it has done before, and is expected to take no more than some times as long."""

    def reading(self) -> AbstractContextManager[None]:
        """Inside, this process waits for its GPU, and so perhaps for the others, whose gradients the GPU waits for."""

    def require_same(self, facts: Mapping[str, Any]) -> None:
        """Raises where the processes do not agree on a fact."""

    def share(self, pieces: int) -> range:
        """The pieces of a batch that this process computes."""

    def sum(self, flat: Tensor) -> Tensor:
        """The sum of every process's tensor, added in pairs."""


@final
class Alone:
    """One process: every answer is its own."""

    place, leads = Place(), True

    def once(
        self, work: Callable[[], T], *, pack: Callable[[T], Any] = lambda v: v, unpack: Callable[[Any], T] = lambda v: v
    ) -> T:
        return work()

    def largest(self, number: int) -> int:
        return number

    def shared(self, items: Iterator[Any], compute: Callable[[Any], T]) -> Iterator[T]:
        return map(compute, items)

    def paced(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    def require_same(self, facts: Mapping[str, Any]) -> None:
        return None

    def share(self, pieces: int) -> range:
        return range(pieces)

    def sum(self, flat: Tensor) -> Tensor:
        return flat


ALONE: Processes = Alone()


class _LostProcess(Exception):
    """A collective failed: another process ended, or did not answer in time."""


@contextmanager
def gloo_muted() -> Iterator[None]:
    """For making a group: gloo of torch 2.10 then prints its connections to standard output, which is for results."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


@final
class Group:
    """Several processes, connected by torch.distributed. ``join`` makes one."""

    def __init__(self, place: Place) -> None:
        import torch.distributed as dist
        from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

        self.place = place
        self._limit = timedelta(seconds=seconds_of(TIMEOUT, 600.0))
        self._patience = min(seconds_of(PATIENCE, 30.0), self._limit.total_seconds())
        store, rank, world = next(iter(dist.rendezvous("env://", timeout=self._limit)))  # type: ignore[attr-defined]
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        words = PrefixStore(f"words-{attempt}", store)
        with gloo_muted():
            dist.init_process_group("gloo", store=words, rank=rank, world_size=world, timeout=self._limit)
        # Clients of their own: one that waits blocks everybody who uses it.
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._store, self._watched_store = (
            PrefixStore(f"glassformer-{attempt}", TCPStore(host, port, None, False, self._limit)) for _ in range(2)
        )
        self._words = 0
        self._pairs: list[Any] = []
        self._staged = True
        self._ending = False
        self._turn = 0  # collectives and words so far: the same in all processes at the same place
        self._waits_in = ""  # the kind of the one that it waits in
        self._waited = 0.0  # seconds, in all of them
        self._does, self._may_take = "", self._limit.total_seconds()  # how long it may keep the others waiting now
        self._longest: dict[str, float] = {}  # seconds of the longest step and so on, without waiting and without the first
        self._begun: set[str] = set()  # what was done at least once
        self._thread = threading.get_ident()
        self._looks = 0
        threading.Thread(target=self._watch, daemon=True).start()
        threading.Thread(target=self._guard, daemon=True).start()

    @property
    def leads(self) -> bool:
        return self.place.rank == 0

    def connect(self, device: torch.device) -> str:
        """Makes the groups of two in which gradients are summed; returns the backend that carries them.

        NCCL where every process has a GPU of its own; gloo, through the host, on a CPU and where processes share a GPU.
        """
        import torch.distributed as dist

        own_gpu = device.type == "cuda" and self.place.local_world <= torch.cuda.device_count()
        backend = "nccl" if own_gpu else "gloo"
        self._staged = device.type != "cpu" and backend == "gloo"
        if not self._pairs:
            bit = 1
            while bit < self.place.world:
                pair = sorted((self.place.rank, self.place.rank ^ bit))
                with gloo_muted():
                    made = dist.new_group(pair, timeout=self._limit, backend=backend, use_local_synchronization=True)
                self._pairs.append(made)
                bit <<= 1
        return backend

    def once(
        self, work: Callable[[], T], *, pack: Callable[[T], Any] = lambda v: v, unpack: Callable[[Any], T] = lambda v: v
    ) -> T:
        self._words += 1
        key = f"word-{self._words}"
        if self.leads:
            result = work()
            self._turn += 1
            self._store.set(key, json.dumps(pack(result)))
            return result
        with self._in_a_collective("once"):
            for look in itertools.count(1):
                if self._is_set(self._store, key):
                    break
                if look % 50 == 0:
                    self._raise_if_another_failed()
                time.sleep(min(0.02, 0.0005 * look))
        return unpack(json.loads(self._store.get(key)))

    def largest(self, number: int) -> int:
        import torch.distributed as dist

        found = torch.tensor([number])
        with self._in_a_collective("largest"):
            dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return int(found)

    def gather(self, content: bytes) -> list[bytes]:
        """What each process gives, in the order of ranks."""
        import torch.distributed as dist

        with self._in_a_collective("gather"):
            sizes = [torch.zeros(1, dtype=torch.long) for _ in range(self.place.world)]
            dist.all_gather(sizes, torch.tensor([len(content)]))
            longest = max(int(size) for size in sizes)
            padded = torch.from_numpy(np.frombuffer(content.ljust(longest, b"\0"), np.uint8).copy())
            found = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.place.world)]
            dist.all_gather(found, padded)
        return [tensor.numpy().tobytes()[: int(size)] for tensor, size in zip(found, sizes)]

    def shared(self, items: Iterator[Any], compute: Callable[[Any], T]) -> Iterator[T]:
        rank, world, ended = self.place.rank, self.place.world, False
        while not ended:
            together = [item for _, item in zip(range(world), items)]
            ended = len(together) < world
            with self.paced("batch of an evaluation"):
                own = _packed(compute(together[rank])) if rank < len(together) else b""
            yield from (_unpacked(one) for one in self.gather(own)[: len(together)])

    @contextmanager
    def paced(self, what: str) -> Iterator[None]:
        """Inside, this process may keep the others waiting ``SLOWER`` times the longest such block so far, at least the seconds
        of ``PATIENCE``; then it ends itself and says where it is. The first two blocks, and all else, have those of
        ``TIMEOUT``; the first one, in which a GPU loads its kernels, is not counted.

        Its time alone says nothing (all may be slow): it counts how long others wait for it.
        """
        begun, waited, unpaced = time.monotonic(), self._waited, self._may_take
        if what in self._longest:
            self._does, self._may_take = what, min(max(self._patience, SLOWER * self._longest[what]), unpaced)
        try:
            yield
        finally:
            taken = time.monotonic() - begun - (self._waited - waited)
            if what in self._begun:
                self._longest[what] = max(taken, self._longest.get(what, 0.0))
            self._begun.add(what)
            self._does, self._may_take = "", unpaced

    @contextmanager
    def reading(self) -> Iterator[None]:
        begun, self._waits_in = time.monotonic(), READING
        try:
            yield
        finally:
            self._waits_in = ""
            self._waited += time.monotonic() - begun

    def require_same(self, facts: Mapping[str, Any]) -> None:
        found = [json.loads(one) for one in self.gather(json.dumps(facts).encode())]
        for name in facts:
            values = [one[name] for one in found]
            if any(value != values[0] for value in values):
                other = next(rank for rank, value in enumerate(values) if value != values[0])
                raise ConfigError(
                    f"The processes of this run differ in their {name}: {_short(values[0])} in process 0, "
                    f"{_short(values[other])} in process {other}. Give all of them the same code, data and kind of device.",
                    reason="processes-differ",
                )

    def share(self, pieces: int) -> range:
        return share_of(pieces, self.place.rank, self.place.world)

    def sum(self, flat: Tensor) -> Tensor:
        """Halves are exchanged with the neighbour, then quarters with the next but one, and so on; then all is gathered.

        Every sum has two summands; 2 (W - 1) / W of the bytes are sent, as in the best collectives.
        """
        import torch.distributed as dist

        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # renamed in torch 2.13
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        part = torch.nn.functional.pad(flat.cpu() if self._staged else flat, (0, -len(flat) % self.place.world))
        with self._in_a_collective("sum"):
            for pair in self._pairs:
                half = part.new_empty(len(part) // 2)
                scatter(half, part, group=pair)
                part = half
            for pair in reversed(self._pairs):
                double = part.new_empty(2 * len(part))
                gather(double, part, group=pair)
                part = double
        return part[: len(flat)].to(flat.device)

    def scatter_sum(self, parts: Tensor) -> Tensor:
        """[W, n], one row for each process -> this process's row, summed over all of them in the same pairs."""
        import torch.distributed as dist

        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        rows, rank = list(range(self.place.world)), self.place.rank
        with self._in_a_collective("scatter_sum"):
            for level, pair in enumerate(self._pairs):
                bit = 1 << level
                low = [at for at, row in enumerate(rows) if not row & bit]
                high = [at for at, row in enumerate(rows) if row & bit]
                half = parts.new_empty(len(rows) // 2, parts.shape[1])
                scatter(half, parts[torch.tensor(low + high, device=parts.device)], group=pair)
                rows, parts = [rows[at] for at in (high if rank & bit else low)], half
        return parts[0]

    def gather_weights(self, output: Tensor, part: Tensor, group: Any, async_op: bool) -> Any:
        """The parts of all processes, end to end. Over NCCL it waits on the GPU, and only there."""
        import torch.distributed as dist

        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        with self._in_a_collective("weights"):
            return gather(output, part, group=group, async_op=async_op and output.is_cuda)

    def ended_by(self, error: BaseException) -> BaseException:
        """What this process ends with: its own error where it is the first to fail, otherwise that of the other one."""
        agreed = isinstance(error, Diverged | Interrupted) or getattr(error, "reason", "") == "processes-differ"
        if isinstance(error, OtherProcessFailed):
            return error
        if is_lost(error):
            cause = self._cause(wait=GRACE / 5)
            if cause is None and LAUNCHED in os.environ and "imed out" not in str(error):
                return OtherProcessFailed("Another process of this run was killed.", code=LOST)
            if cause is None:
                error = GlassformerError(
                    f"Process {self.place.rank} of {self.place.world} lost contact with another one, which was killed or did "
                    f"not answer for {self._limit.total_seconds():g} s. The last checkpoint is whole: go on with --resume.",
                    reason="lost-process",
                )
        else:  # what all processes find together, rank 0 says: it is the one that saves
            cause = self._cause(wait=self._limit.total_seconds()) if agreed and not self.leads else None
        if cause is None:
            own = {"rank": self.place.rank, "code": exit_code_of(error), "pid": os.getpid()}
            with suppress(RuntimeError):  # the store is gone with the process that held it
                cause = json.loads(self._store.compare_set(CAUSE, "", json.dumps(own)))
            if cause is None or cause == own:
                return error
        return OtherProcessFailed(f"Process {cause['rank']} of this run failed.", code=cause["code"])

    def leave(self) -> None:
        """The end of a run that all processes have finished."""
        import torch.distributed as dist

        self._ending = True
        with suppress(RuntimeError):
            self._store.set(f"beat-{self.place.rank}", "")  # it gives no more signs of life, and nobody expects them
            dist.destroy_process_group()

    @contextmanager
    def _in_a_collective(self, kind: str) -> Iterator[None]:
        begun, self._turn, self._waits_in = time.monotonic(), self._turn + 1, kind
        try:
            yield
        except RuntimeError as error:
            raise _LostProcess(str(error)) from error
        finally:
            self._waits_in = ""
            self._waited += time.monotonic() - begun

    def _cause(self, wait: float = 0.0) -> dict[str, Any] | None:
        until = time.monotonic() + wait
        while True:
            try:
                if self._store.check([CAUSE]):
                    found: dict[str, Any] = json.loads(self._store.get(CAUSE))
                    return found
            except RuntimeError:  # the store is gone with the process that held it
                return None
            if time.monotonic() >= until:
                return None
            time.sleep(0.05)

    def _raise_if_another_failed(self) -> None:
        if (cause := self._cause()) is not None:
            raise OtherProcessFailed(f"Process {cause['rank']} of this run failed.", code=cause["code"])

    @staticmethod
    def _is_set(store: Any, key: str) -> bool:
        """Raises ``_LostProcess`` when the store is gone. (Not ``store.wait``: torch prints a warning when its time is up.)"""
        try:
            return bool(store.check([key]))
        except RuntimeError as error:
            raise _LostProcess(str(error)) from error

    def _end_neighbour(self, pid: int) -> None:
        """Ends the next process, which gives no sign of life: by a signal on the same machine, else by ending all others."""
        neighbour = (self.place.rank + 1) % self.place.world
        what = f"Process {neighbour} of {self.place.world} gave no sign of life for {self._patience:g} s"
        print(f"{what} and is ended.", file=sys.stderr, flush=True)
        if neighbour // self.place.local_world == self.place.rank // self.place.local_world:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        else:
            own = {"rank": neighbour, "code": 1, "pid": pid}
            self._watched_store.compare_set(CAUSE, "", json.dumps(own))

    def _end_itself(self, why: str) -> None:
        """Ends this process, which would not end: it computes forever, or waits for what never comes."""
        own = {"rank": self.place.rank, "code": 1, "pid": os.getpid()}
        if json.loads(self._watched_store.compare_set(CAUSE, "", json.dumps(own))) == own:
            frame, who = sys._current_frames().get(self._thread), f"Process {self.place.rank} of {self.place.world}"
            where = "" if frame is None else f" It is at {frame.f_code.co_filename}, line {frame.f_lineno}."
            print(f"Error: {who} {why}.{where} The last checkpoint is whole: go on with --resume.", file=sys.stderr, flush=True)
        os._exit(1)

    def _watch(self) -> None:
        """Looks after the run beside the main thread, which may be anywhere.

        Ends this process when another one failed and it does not end by itself, and when it keeps the others waiting too long;
        ends the next one when it is frozen. Looks are counted, not seconds: after Ctrl-Z and fg all have been silent.
        """
        code, last, silent = 1, b"", 0
        before, since = (-1, ""), 0  # its own place at the last look, and for how many looks others have waited for it there
        try:
            for self._looks in itertools.count():
                if self._is_set(self._watched_store, CAUSE):
                    break
                if self._ending:
                    return
                self._watched_store.set(f"beat-{self.place.rank}", f"{os.getpid()} {self._looks}")
                key = f"beat-{(self.place.rank + 1) % self.place.world}"
                found = self._watched_store.get(key) if self._is_set(self._watched_store, key) else b""
                last, silent = found, silent + 1 if found and found == last else 0
                if silent * LOOK_EVERY > self._patience:
                    self._end_neighbour(int(found.split()[0]))
                    silent = 0
                here, other = (self._turn, self._waits_in), self._awaited()
                since = since + 1 if holds_up(here, other) and here == before else 0
                if here[1] and here == before:
                    self._watched_store.set(AWAITED, f"{here[0]} {here[1]}")
                if since * LOOK_EVERY > (self._patience if here[1] else self._may_take):
                    self._end_itself(self._why_held_up(since * LOOK_EVERY, here[1], other[1]))
                before = here
                time.sleep(LOOK_EVERY)
            code = json.loads(self._watched_store.get(CAUSE))["code"]
        except (_LostProcess, RuntimeError, ValueError):  # the process that keeps the store is gone, and with it the run
            pass
        if self._ending:
            return
        time.sleep(GRACE)
        if not self._ending:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)

    def _guard(self) -> None:
        """Ends this process when its looks at the store never end: torch waits without limit for a machine that is gone."""
        last, silent = -1, 0
        while not self._ending:
            last, silent = self._looks, silent + 1 if self._looks == last else 0
            if silent * LOOK_EVERY > self._patience + GRACE:
                who = f"Process {self.place.rank} of {self.place.world} has had no contact with the machine of process 0"
                what = f"{who} for {silent * LOOK_EVERY:g} s. The last checkpoint is whole: go on with --resume."
                print(f"Error: {what}", file=sys.stderr, flush=True)
                os._exit(1)
            time.sleep(LOOK_EVERY)

    def _awaited(self) -> tuple[int, str]:
        """Where a process waits for others: the number of its collective or word, and the kind."""
        if not self._is_set(self._watched_store, AWAITED):
            return -1, ""
        turn, kind = self._watched_store.get(AWAITED).decode().split()
        return int(turn), kind

    def _why_held_up(self, seconds: float, own: str, other: str) -> str:
        if own:
            return f"waits in {own!r} and another one in {other!r}, so that neither can go on: a defect of the program"
        usual = f" in a {self._does} (its longest took {self._longest[self._does]:.3g} s)" if self._does else ""
        return f"has kept the others waiting for {seconds:g} s{usual}"


def holds_up(here: tuple[int, str], other: tuple[int, str]) -> bool:
    """Whether a process keeps another one waiting, by the number of the collective each is in and its kind; "": it computes.

    One that computes does when the other waits in a later one. One that waits does when the other waits in the same one of
    another kind: neither ever ends. Reading from a GPU is waiting too, for what was launched, and goes with every kind.
    """
    if not here[1]:
        return other[0] > here[0]
    return other[0] == here[0] and other[1] != here[1] and READING not in (here[1], other[1])


def join() -> Processes:
    """The processes that torchrun started, this one among them; ``ALONE`` where it started none."""
    place = place_of()
    return ALONE if place is None or place.world == 1 else Group(place)


@contextmanager
def ending_together(processes: Processes) -> Iterator[None]:
    """When one process fails, all end, with its exit code; only that one says why."""
    try:
        yield
    except BaseException as error:
        if not isinstance(processes, Group):
            raise
        ending = processes.ended_by(error)
        if ending is error:
            raise
        raise ending from error


def is_lost(error: BaseException) -> bool:
    """Whether a collective failed. Sharded models call theirs inside torch, which raises with the name of its backend."""
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "Timed out waiting")
    return isinstance(error, _LostProcess) or (isinstance(error, RuntimeError) and any(word in str(error) for word in words))


def _packed(result: Any) -> bytes:
    """An array, or a tuple of arrays, as bytes: a line of JSON with types and shapes, then the numbers. A list: JSON alone."""
    if isinstance(result, list):
        return json.dumps(result).encode()
    arrays = [np.asarray(one, order="C") for one in (result if isinstance(result, tuple) else (result,))]
    head = {"tuple": isinstance(result, tuple), "arrays": [[one.dtype.str, list(np.shape(one))] for one in arrays]}
    return json.dumps(head).encode() + b"\n" + b"".join(one.tobytes() for one in arrays)


def _unpacked(content: bytes) -> Any:
    line, _, rest = content.partition(b"\n")
    head, at, arrays = json.loads(line), 0, []
    if isinstance(head, list):
        return head
    for kind, shape in head["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(rest, np.dtype(kind), count, at).reshape(shape).copy())
        at += arrays[-1].nbytes
    return tuple(arrays) if head["tuple"] else arrays[0]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
