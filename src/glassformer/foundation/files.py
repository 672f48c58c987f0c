"""Atomic writes (a reader sees the old file or the new one, never half of one), JSON files, checksums.

Every durable file of the project goes through here. Knows nothing of what the files mean.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from glassformer.foundation.errors import DiskFull, RunError

# EFBIG comes from a file-size limit (ulimit -f), EDQUOT from a quota: for the user all three mean "no room".
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def room_on_disk(target: Path) -> Iterator[None]:
    """Turns the operating system's "no room" into a sentence that names ``target``."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull(
                f"No room to write {target} ({error.strerror}); free some space and start again with --resume. "
                "What was saved before is untouched.",
                reason="disk-full",
            ) from error
        raise


def sync_folder(folder: Path) -> None:
    """Makes the names in ``folder`` durable (a rename is only safe once its folder is on disk)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replaces ``path`` in one step: draft beside it, fsync, rename, fsync of the folder."""
    payload = content.encode() if isinstance(content, str) else content
    with room_on_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".draft")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(payload)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(draft, 0o666 & ~_umask())
            os.replace(draft, path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A draft beside ``folder`` (absent or empty), which it becomes once all is written; of a failure nothing is left."""
    with room_on_disk(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            yield draft
            draft.chmod(0o755)
            if folder.is_dir():
                folder.rmdir()  # it is empty
            os.rename(draft, folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def write_json(path: Path, document: Any) -> None:
    """One JSON document, readable by people and by strict parsers (no NaN)."""
    write_atomically(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """The document at ``path``; a damaged one is a sentence, not a traceback."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path} does not exist.", reason="no-such-file") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RunError(
            f"{path} is not valid JSON ({error}); it was edited or damaged after it was written.", reason="damaged-json"
        ) from error


def append_json_line(path: Path, document: Any) -> None:
    """One document as one more line. A line torn by a killed process is ended first, so that it damages no other."""
    line = json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"
    with room_on_disk(path), path.open("ab") as stream:
        if stream.tell() and not _ends_with_newline(path):
            line = "\n" + line
        stream.write(line.encode())


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The documents of ``path``, nothing when there is no such file. Torn lines, left by killed processes, are skipped."""
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            document = json.loads(line or "{}")
        except json.JSONDecodeError as error:
            if number == len(lines) or not line.endswith("}"):  # cut off in the middle
                continue
            raise RunError(
                f"{path}, line {number}: not valid JSON ({error.msg}); the file was changed.", reason="damaged-json-line"
            ) from error
        if not isinstance(document, dict):
            raise RunError(f"{path}, line {number}: not a record in braces; the file was changed.", reason="damaged-json-line")
        if document:
            yield document


def is_draft(path: Path) -> bool:
    """Whether this is what a process left that was killed in ``write_atomically``."""
    return path.name.startswith(".") and path.name.endswith(".draft")


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def release_pages(array: Any) -> None:
    """Frees the memory that reading a mapped file has filled; pages that are needed again are read again.

    Without it a pass over a file larger than memory counts, page by page, as memory of this process.
    """
    mapped = getattr(array, "_mmap", None)  # numpy's, of an array that lives in a file
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_text(text: str) -> str:
    return sha256_of_bytes(text.encode())


def sha256_of_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=1)
def code_sha256() -> str:
    """A checksum of all our source files: another line of code may be another model, so caches are keyed by it."""
    root, total = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        total.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
