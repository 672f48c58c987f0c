"""Locks between processes: held while a file is open, let go of by the system when a process dies, however it dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(file: Path, *, wait: bool) -> Iterator[bool]:
    """Holds the lock of ``file``. Without ``wait`` the answer is False when another process holds it.

    Where a system or a disk has no such locks (Windows, some network disks), everybody gets it.
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    while True:
        with file.open("a") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            except OSError:
                pass
            if _is_still_at(file, stream.fileno()):  # else its last holder removed it after we had opened it
                yield True
                return


def _is_still_at(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
