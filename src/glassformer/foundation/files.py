"""Atomic writes (a reader sees the old file or the new one, never half of one), bounded reads, JSON files, checksums.

Every durable file of the project goes through here. Knows nothing of what the files mean. Sizes are checked before anything is
read. Below a folder that is served to a browser no symbolic link is followed, neither for reading nor for writing.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import mmap
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from glassformer.foundation.errors import DiskFull, RunError

# EFBIG comes from a file-size limit (ulimit -f), EDQUOT from a quota: for the user all three mean "no room".
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

T = TypeVar("T")
MOST_BYTES = 64 << 20
"""Bytes of one document, unless its reader says otherwise."""
MOST_LINES_BYTES = 256 << 20
"""Bytes of a file of JSON lines: more than a million records."""
LONGEST_LINE = 1 << 20

SERVED = "GLASSFORMER_SERVED"
"""Names the served folder to the processes that the server starts."""
_served: set[Path] = {Path(os.environ[SERVED])} if os.environ.get(SERVED) else set()


def follow_no_links_below(root: Path) -> None:
    """From now on this process follows no link below ``root``, an absolute path without links."""
    _served.add(root)


def open_file(path: Path, flags: int = os.O_RDONLY) -> io.BufferedRandom:
    """A plain file, opened; anything else (a pipe, a device) is refused. Below a served folder every part of the path is opened
    by itself and may not be a link, so that no link can be put there between a test and its use."""
    mode = {os.O_RDONLY: "rb", os.O_WRONLY: "wb", os.O_RDWR: "rb+"}[flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)]
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)  # a pipe without a writer would wait for one
    with _folder_of(path) as (name, folder):
        try:
            descriptor = os.open(name, flags | (0 if folder is None else os.O_NOFOLLOW), 0o666, dir_fd=folder)
        except OSError as error:
            raise (_link_refused(path) if folder is not None and error.errno == errno.ELOOP else error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunError(f"{path} is not a file.", reason="not-a-file")
    return cast(io.BufferedRandom, os.fdopen(descriptor, mode))


def refuse_links(path: Path) -> None:
    """Raises if ``path``, below a served folder, is a link or reached through one. It need not exist."""
    with suppress(FileNotFoundError), _folder_of(path) as (name, folder):
        if folder is not None and _is_link(name, folder):
            raise _link_refused(path)


def is_linked(path: Path) -> bool:
    """Whether ``refuse_links`` refuses it."""
    try:
        if _served:
            refuse_links(path)
    except (RunError, OSError) as error:
        return isinstance(error, RunError)
    return False


def files_like(folder: Path, pattern: str) -> list[Path]:
    """The names in a folder that match; below a served folder no links, and none of a folder that is one."""
    return [] if is_linked(folder) else [path for path in folder.glob(pattern) if not is_linked(path)]


@contextmanager
def _folder_of(path: Path) -> Iterator[tuple[str | Path, int | None]]:
    """What ``os.open`` needs: below a served folder the name, and the descriptor of its folder; elsewhere the path alone."""
    place = Path(os.path.abspath(path))
    root = next((root for root in _served if root in place.parents), None)
    if root is None or os.open not in os.supports_dir_fd:
        if root is not None and any(one.is_symlink() for one in (place, *place.parents) if root in one.parents):
            raise _link_refused(path)
        yield path, None
        return
    folders = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    *above, name = place.relative_to(root).parts
    folder = os.open(root, folders)
    try:
        for part in above:
            try:
                deeper = os.open(part, folders | os.O_NOFOLLOW, dir_fd=folder)
            except OSError as error:
                raise (_link_refused(path) if _is_link(part, folder) else error) from None
            os.close(folder)
            folder = deeper
        yield name, folder
    finally:
        os.close(folder)


def _is_link(name: str | Path, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _link_refused(path: Path) -> RunError:
    return RunError(f"{path} is a link, or reached through one; the page follows none.", reason="link-in-served-folder")


def read_bytes(path: Path, *, most: int = MOST_BYTES) -> bytes:
    """The whole file; one larger than ``most`` bytes is refused before it is read."""
    with open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read(most + 1) if size <= most else b""
    if size > most or len(content) > most:  # it may have grown meanwhile
        raise RunError(f"{path} has {size:,} bytes; at most {most:,} are read.", reason="too-large")
    return content


def read_text(path: Path, *, most: int = MOST_BYTES) -> str:
    """The same as text; line ends of any kind become newlines."""
    return read_bytes(path, most=most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


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
        refuse_links(path)
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
    """A draft beside ``folder`` (absent or empty), which it becomes once all is on disk; of a failure nothing is left."""
    with room_on_disk(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            yield draft
            draft.chmod(0o755)
            sync_folder(draft)
            if folder.is_dir():
                folder.rmdir()  # it is empty
            os.rename(draft, folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        sync_folder(folder.parent)


def write_json(path: Path, document: Any) -> None:
    """One JSON document, readable by people and by strict parsers (no NaN)."""
    write_atomically(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, *, most: int = MOST_BYTES) -> Any:
    """The document at ``path``; a damaged one is a sentence, not a traceback."""
    try:
        return json.loads(read_text(path, most=most))
    except FileNotFoundError:
        raise RunError(f"{path} does not exist.", reason="no-such-file") from None
    except (ValueError, RecursionError) as error:
        raise RunError(
            f"{path} is not valid JSON ({error}); it was edited or damaged after it was written.", reason="damaged-json"
        ) from error


def read_json_object(path: Path, *keys: str, most: int = MOST_BYTES) -> dict[str, Any]:
    """The same for a document in braces that has all ``keys``."""
    document = read_json(path, most=most)
    missing = [key for key in keys if not isinstance(document, dict) or key not in document]
    if missing or not isinstance(document, dict):
        what = f"has no {', '.join(missing)}" if isinstance(document, dict) else "is not a JSON object"
        raise RunError(f"{path} {what}; it was changed or damaged after it was written.", reason="damaged-document")
    return document


def read_versioned(
    path: Path,
    schema: int,
    parse: Callable[[dict[str, Any]], T],
    remedy: str,
    *,
    reason: str = "damaged",
    most: int = MOST_BYTES,
) -> T:
    """What ``parse`` makes of a document with this number in ``schema``; where it cannot, raises with the remedy."""
    document = read_json(path, most=most)
    try:
        if document["schema"] != schema:
            raise RunError(f"{path} has schema {document['schema']!r}; this version reads {schema}.", reason="other-schema")
        return parse(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{path} is damaged ({type(error).__name__}: {error}); {remedy}.", reason=reason) from error


def append_json_line(path: Path, document: Any) -> None:
    """One document as one more line. A line torn by a killed process is ended first, so that it damages no other."""
    line = json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"
    with room_on_disk(path), open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND) as stream:
        end = stream.seek(0, os.SEEK_END)
        if end and stream.seek(end - 1) is not None and stream.read(1) != b"\n":
            line = "\n" + line
        stream.write(line.encode())


def read_json_lines(
    path: Path, *keys: str, most: int = MOST_LINES_BYTES, damaged: Callable[[str], None] | None = None
) -> Iterator[dict[str, Any]]:
    """The documents of ``path``, nothing when there is no such file. Torn lines, left by killed processes, are skipped.

    A line that is no document, or lacks one of ``keys``, is named to ``damaged`` and left out; without it, it raises.
    """
    if not path.is_file():
        return

    def refuse(number: int, what: str) -> None:
        sentence = f"{path}, line {number}: {what}; the file was changed."
        if damaged is None:
            raise RunError(sentence, reason="damaged-json-line")
        damaged(f"{sentence} The line is left out.")

    with open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise RunError(f"{path} has {size:,} bytes; at most {most:,} are read.", reason="too-large")
        number = 0
        while line := stream.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                refuse(number, f"longer than {LONGEST_LINE:,} bytes")
                while line and not line.endswith(b"\n"):
                    line = stream.readline(LONGEST_LINE)
                continue
            try:
                document = json.loads(line.decode("utf-8", errors="replace").strip("\r\n") or "{}")
            except (ValueError, RecursionError) as error:
                if line.rstrip(b"\r\n").endswith(b"}") and line.endswith(b"\n"):  # else it was cut off in the middle
                    refuse(number, f"not valid JSON ({getattr(error, 'msg', error)})")
                continue
            if not isinstance(document, dict):
                refuse(number, "not a record in braces")
            elif missing := [key for key in keys if document and key not in document]:
                refuse(number, f"a record without {', '.join(missing)}")
            elif document:
                yield document


def is_draft(path: Path) -> bool:
    """Whether this is what a process left that was killed in ``write_atomically``."""
    return path.name.startswith(".") and path.name.endswith(".draft")


def release_pages(array: Any) -> None:
    """Frees the memory that reading a mapped file has filled; pages that are needed again are read again.

    Without it a pass over a file larger than memory counts, page by page, as memory of this process.
    """
    mapped = getattr(array, "_mmap", None)  # numpy's, of an array that lives in a file
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def sha256_of_file(path: Path) -> str:
    with open_file(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_text(text: str) -> str:
    return sha256_of_bytes(text.encode())


def sha256_of_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=1)
def code_sha256() -> str:
    """A checksum of all our source files: another line of code may be another model, so caches are keyed by it."""
    return _sha256_of_sources(())


NOT_TRAINING = (
    "atlas",
    "benchmark",
    "byhand",
    "cli",
    "figures",
    "lens",
    "pages",
    "study",
    "web",
    "run_report.py",
    "recipe_cost.py",
)
"""Parts of the package that no trained or evaluated figure depends on."""


@lru_cache(maxsize=1)
def training_code_sha256() -> str:
    """A checksum of the source files that a trained model and its figures depend on; trials are valid for it.

    It does not change with the command line, the page or the statistics, so that trials outlive a release.
    """
    return _sha256_of_sources(NOT_TRAINING)


def _sha256_of_sources(left_out: Collection[str]) -> str:
    root, total = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        if file.relative_to(root).parts[0] not in left_out:
            total.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
