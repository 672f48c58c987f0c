"""A signal while data are read ends the reading where it stands; one that is ignored (nohup) stays ignored."""

from __future__ import annotations

import os
import signal
import time

import pytest

from glassformer.training.signals import StopRequested, StopSignal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_inside_at_once_it_is_raised(number: int) -> None:
    with StopSignal() as stop, pytest.raises(StopRequested), stop.at_once():
        os.kill(os.getpid(), number)
        time.sleep(5)
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
