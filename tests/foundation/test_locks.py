"""One process at a time: held until let go of, and let go of by death."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

from glassformer.foundation.locks import is_held, locked

HOLDER = (
    "import sys, time; from pathlib import Path; from glassformer.foundation.locks import locked\n"
    "with locked(Path(sys.argv[1]), wait=False) as mine: print(mine, flush=True); time.sleep(60)"
)


def held(file: Path) -> bool:
    with locked(file, wait=False) as mine:
        return not mine


def test_a_second_process_is_told_and_death_lets_go(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(file)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert held(file)
        assert is_held(file)
        holder.kill()
        holder.wait()
        assert is_held(file) is False
        assert not held(file)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()  # type: ignore[union-attr]


def test_waiting_gets_it_in_the_end(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    got = threading.Event()

    def wait() -> None:
        with locked(file, wait=True) as mine:
            if mine:
                got.set()

    waiter = threading.Thread(target=wait, daemon=True)
    until_told = HOLDER.replace("time.sleep(60)", "sys.stdin.read()")
    words = [sys.executable, "-c", until_told, str(file)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        waiter.start()
        assert not got.wait(0.2)  # however long: the other process has it
        holder.stdin.close()
        assert got.wait(300)
    waiter.join()


def test_it_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        assert not held(tmp_path / "lock")


def test_asking_makes_no_file_and_knows_where_it_cannot_tell(tmp_path: Path, monkeypatch) -> None:
    assert is_held(tmp_path / "lock") is False
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "lock").touch()

    def no_locks(*_: object) -> None:
        raise OSError("no such locks on this disk")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert is_held(tmp_path / "lock") is None


def test_whoever_takes_it_is_not_refused_for_somebody_who_asks(tmp_path: Path, monkeypatch) -> None:
    answers = [BlockingIOError(), None]  # somebody was asking `is_held` just then

    def flock(*_: object) -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    monkeypatch.setattr(fcntl, "flock", flock)
    assert not held(tmp_path / "lock")
