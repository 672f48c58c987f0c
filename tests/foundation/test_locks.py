"""One process at a time: held until let go of, and let go of by death."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
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
    short = HOLDER.replace("sleep(60)", "sleep(0.3)")
    with subprocess.Popen([sys.executable, "-c", short, str(file)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        begun = time.monotonic()
        with locked(file, wait=True) as mine:
            assert mine
        assert time.monotonic() - begun > 0.1


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
