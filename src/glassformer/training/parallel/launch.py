"""``--processes N``: this program started N times on this machine, by torchrun's own launcher, called as a library."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from inspect import signature
from typing import Any, Literal

from glassformer.foundation.errors import BadArgument, GlassformerError, OtherProcessFailed
from glassformer.training.parallel.group import LAUNCHED, LOST
from glassformer.training.parallel.tree import is_power_of_two

MOST = 4096
WITH_PARENT = "GLASSFORMER_ENDS_WITH_PARENT"
"""Set by a program that started this one: when its pipe to our standard input closes, it is gone, and we save and end."""
TO_END = 600
"""Seconds that the processes have to save and end after a signal; torchrun's 30 are too few for a large checkpoint."""


def number_of_processes(given: int | str | Literal["auto"]) -> int:
    """The number that ``--processes`` means. ``auto``: one for each GPU, or for each core; a power of two."""
    if given == "auto":
        import torch

        found = torch.cuda.device_count() if torch.cuda.is_available() else len(os.sched_getaffinity(0))
        return 1 << (max(1, found).bit_length() - 1)
    if not str(given).isdecimal() or not 1 <= int(given) <= MOST:
        raise BadArgument("processes", given, "give a number of processes, or auto", reason="bad-processes")
    number = int(given)
    if not is_power_of_two(number):
        low = 1 << (number.bit_length() - 1)
        raise BadArgument(
            "processes",
            number,
            f"gradients are added in pairs, so the number must be a power of two: use {low} or {2 * low}",
            reason="processes-no-power-of-two",
        )
    return number


def launch(words: Sequence[str], processes: int) -> None:
    """Runs ``python -m glassformer WORDS`` in so many processes, connected to each other; returns when all have ended well.

    Raises what the command line ends with: the exit code of the first process that failed, which has said why itself.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    to_end: dict[str, Any] = {"shutdown_timeout": TO_END} if "shutdown_timeout" in signature(LaunchConfig).parameters else {}
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        run_id=f"glassformer-{os.getpid()}",
        max_restarts=0,
        **to_end,
    )
    if os.environ.pop(WITH_PARENT, None):
        threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ[LAUNCHED] = "1"
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a lost connection would be reported with its stack, again and again
    logging.disable(logging.CRITICAL)  # the process that failed says so, in one sentence
    try:
        elastic_launch(config, sys.executable)("-m", "glassformer", *words)
    except SignalException as stop:
        raise OtherProcessFailed("Stopped by a signal.", code=128 + int(stop.sigval)) from None
    except ChildFailedError as error:
        codes = {rank: one.exitcode for rank, one in error.failures.items()}
        spoken = [code for code in codes.values() if code > 0 and code != LOST]
        if spoken:
            raise OtherProcessFailed("A process of this run failed.", code=spoken[0]) from None
        # The first one that was killed: it says nothing itself, and the launcher ends the others with SIGTERM.
        rank, code = min(codes.items(), key=lambda one: (one[1] > 0, one[1] == -signal.SIGTERM))
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else "lost contact with another one"
        raise GlassformerError(
            f"Process {rank} of {processes} {how}, so all of them ended. The last checkpoint is whole: go on with --resume.",
            reason="process-killed",
        ) from None
    finally:
        logging.disable(logging.NOTSET)
        del os.environ[LAUNCHED]


def _end_with_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
