"""Durable files: the old one or the new one, never half of one; no room is a sentence and leaves no draft."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.foundation.errors import DiskFull, RunError
from glassformer.foundation.files import (
    append_json_line,
    code_sha256,
    is_draft,
    read_json,
    read_json_lines,
    release_pages,
    room_on_disk,
    sha256_of_file,
    sha256_of_text,
    sync_folder,
    write_atomically,
    write_json,
)


def test_text_and_bytes(tmp_path) -> None:
    write_atomically(tmp_path / "new" / "a.txt", "äöü\n")
    assert (tmp_path / "new" / "a.txt").read_bytes() == "äöü\n".encode()
    write_atomically(tmp_path / "new" / "a.txt", b"\0\1")
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"\0\1"
    assert os.listdir(tmp_path / "new") == ["a.txt"]


def test_the_mode_is_that_of_any_new_file(tmp_path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch, where: str) -> None:
    write_atomically(tmp_path / "a", "old")

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, where, fail)
    with refused(DiskFull, "disk-full", "a (No space left on device)") as caught:
        write_atomically(tmp_path / "a", "new")
    assert caught.value.exit_code == 1
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_ctrl_c_while_writing_leaves_no_draft(tmp_path, monkeypatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_three_ways_of_no_room(number: int) -> None:
    with refused(DiskFull, "disk-full", "here"), room_on_disk(Path("here")):
        raise OSError(number, os.strerror(number))


def test_other_errors_of_the_system_stay_what_they_are() -> None:
    with pytest.raises(PermissionError), room_on_disk(Path("here")):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_a_file_size_limit_in_a_real_process(tmp_path) -> None:
    (tmp_path / "a").write_text("old")
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from glassformer.foundation.errors import DiskFull\n"
        "from glassformer.foundation.files import write_atomically\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    write_atomically(Path(sys.argv[1]), 'x' * 100_000)\n"
        "except DiskFull as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"No room to write {tmp_path / 'a'} (File too large); free some space")
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_full_disk(tiny_disk: Path) -> None:
    write_atomically(tiny_disk / "a", "old")
    with refused(DiskFull, "disk-full", "No space left on device"):
        write_atomically(tiny_disk / "a", b"x" * (4 << 20))
    assert (tiny_disk / "a").read_text() == "old"
    assert os.listdir(tiny_disk) == ["a"]


def test_json_there_and_back(tmp_path) -> None:
    document = {"a": [1, 2.5, None, True], "b": {"ä": "x"}}
    write_json(tmp_path / "a.json", document)
    assert read_json(tmp_path / "a.json") == document
    assert (tmp_path / "a.json").read_text(encoding="utf-8").endswith("}\n")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text()) == document


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe{}", b"{} x"])
def test_damaged_json_is_a_sentence(tmp_path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with refused(RunError, "damaged-json", "a.json"):
        read_json(tmp_path / "a.json")
    with refused(RunError, "no-such-file", "absent.json"):
        read_json(tmp_path / "absent.json")


def test_sums(tmp_path) -> None:
    content = b"abc" * 1_000_000
    (tmp_path / "a").write_bytes(content)
    assert sha256_of_file(tmp_path / "a") == hashlib.sha256(content).hexdigest()
    assert sha256_of_text("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1


def test_a_folder_that_is_not_there(tmp_path) -> None:
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "absent")


def test_lines_are_appended_and_torn_ones_passed_over(tmp_path) -> None:
    file = tmp_path / "a.jsonl"
    assert list(read_json_lines(file)) == []
    append_json_line(file, {"a": 1})
    with file.open("a") as stream:
        stream.write('{"a": 2, "b"')  # a process was killed here
    assert list(read_json_lines(file)) == [{"a": 1}]
    append_json_line(file, {"a": 3})
    assert list(read_json_lines(file)) == [{"a": 1}, {"a": 3}]
    with file.open("a") as stream:
        stream.write("{a: 4}\n")
    append_json_line(file, {"a": 5})
    with refused(RunError, "damaged-json-line", "a.jsonl, line 4"):
        list(read_json_lines(file))


def test_drafts_are_known_by_their_names(tmp_path) -> None:
    assert is_draft(tmp_path / ".recipe.yaml.x7.draft")
    assert not is_draft(tmp_path / "recipe.yaml")
    assert not is_draft(tmp_path / "my.draft")


def test_pages_of_a_mapped_file_are_given_back(tmp_path) -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("only Linux says how much of a process's memory belongs to files")

    def of_files() -> int:
        line = next(line for line in status.read_text().splitlines() if line.startswith("RssFile"))
        return int(line.split()[1])

    file = tmp_path / "numbers"
    np.arange(4 << 20, dtype=np.uint32).tofile(file)
    mapped = np.memmap(file, np.uint32, mode="r")
    before, total = of_files(), int(mapped.sum(dtype=np.int64))
    assert of_files() - before > 12 << 10  # kB: it has been read
    release_pages(mapped[5:])
    assert of_files() - before < 2 << 10
    assert int(mapped.sum(dtype=np.int64)) == total  # and can be read again
    release_pages(np.ones(3))  # an array in memory stays as it is


PACKAGE = Path(__file__).parents[2] / "src" / "glassformer"
PROGRAM = "from glassformer.foundation.files import code_sha256; print(code_sha256())"


def test_another_line_is_another_checksum(tmp_path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "glassformer", ignore=shutil.ignore_patterns("__pycache__"))

    def checksum_of_the_copy() -> str:
        command = [sys.executable, "-c", PROGRAM]
        answer = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True)
        return answer.stdout.strip()

    assert checksum_of_the_copy() == code_sha256()
    with (tmp_path / "glassformer" / "checking" / "gate.py").open("a", encoding="utf-8") as stream:
        stream.write("# another line\n")
    assert checksum_of_the_copy() != code_sha256()
