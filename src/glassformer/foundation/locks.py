"""Locks between processes: held while a file is open; the system releases them when a process dies, however it dies."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glassformer.foundation.errors import RunError
from glassformer.foundation.files import open_file


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
    tries = 3
    while True:
        with open_file(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                tries -= 1
                if tries:  # whoever asks `is_held` has it for a moment, too
                    time.sleep(0.005)
                    continue
                yield False
                return
            except OSError:
                pass
            if _is_still_at(file, stream.fileno()):  # else its last holder removed it after we had opened it
                yield True
                return


def is_held(file: Path) -> bool | None:
    """Whether a process holds the lock of ``file``; None where a system or a disk has no such locks. Makes no file."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        with open_file(file) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError, RunError):  # a link or a pipe is no lock of ours
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def _is_still_at(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
