"""Signals as requests: the first is remembered, the second Ctrl-C ends at once, and nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from glassformer.training.signals import StopRequested, StopSignal


@pytest.fixture(autouse=True)
def _hang_ups_are_heard() -> Iterator[None]:
    """`nohup make test` has SIGHUP ignored, which a run respects."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_remembered(number: signal.Signals) -> None:
    with StopSignal() as stop:
        assert not stop.requested
        stop.check()
        os.kill(os.getpid(), number)
        assert stop.requested
        assert stop.number == number
        with pytest.raises(StopRequested):
            stop.check()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_then_ctrl_c_ends_at_once(first: signal.Signals) -> None:
    with StopSignal() as stop:
        os.kill(os.getpid(), first)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.number == first


def test_a_second_sigterm_changes_nothing() -> None:
    """Process managers repeat it while they wait."""
    with StopSignal() as stop:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.number == signal.SIGTERM


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with contextlib.suppress(ZeroDivisionError), StopSignal():
        assert signal.getsignal(signal.SIGINT) is not before[0]
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_in_another_thread_it_is_harmless() -> None:
    """A page or a notebook may train in a thread; Python lets only the main one have handlers."""
    seen: list[bool] = []

    def work() -> None:
        with StopSignal() as stop:
            seen.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_inside_at_once_it_is_raised(number: int) -> None:
    def read_for_ever() -> None:
        with stop.at_once():
            os.kill(os.getpid(), number)
            time.sleep(300)  # ended by the signal

    with StopSignal() as stop, pytest.raises(StopRequested):
        read_for_ever()
    assert stop.number == number


def test_outside_it_is_remembered() -> None:
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.01)
        assert stop.requested
        with pytest.raises(StopRequested), stop.at_once():
            pass


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignal() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)
